/** Answers of other programs: bounded reading, and error envelopes without codes of their own (D-246). */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { errorEnvelope, readText } from "../../../cli/client/answers.ts";
import { callService } from "../../../cli/client/service_call.ts";
import { ConnectorClient } from "../../../cli/connector/local_api/client.ts";
import { viewOf } from "../../../cli/connector/console_view.ts";
import { apiErrorOf } from "../../../cli/connector/link/proxy_call.ts";
import { ApiError, CliError } from "../../../cli/errors.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";

/** A body without an end, and how many bytes of it were read. */
function endless() {
  const taken = { bytes: 0 };
  const chunk = new Uint8Array(64 * 1024).fill(0x20);
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      taken.bytes += chunk.length;
      controller.enqueue(chunk);
    },
  });
  return { taken, response: new Response(body) };
}

Deno.test("reading a body stops with an error when it is larger than allowed", async () => {
  const { taken, response } = endless();
  await assertRejects(() => readText(response, 1024 * 1024), RangeError);
  assert(taken.bytes <= 1024 * 1024 + 3 * 64 * 1024, String(taken.bytes));
  assertEquals(await readText(new Response("é😀"), 6), "é😀");
  await assertRejects(() => readText(new Response("é😀"), 5), RangeError);
});

Deno.test("the client of the local API reads at most 4 MiB of an endless answer", async () => {
  const { taken, response } = endless();
  const deps = { fetch: () => Promise.resolve(response), clock: new ManualClock() };
  const file = { url: "http://127.0.0.1:1", port: 1, token: "t", pid: 1, agentDid: "", startedAt: "" };
  await assertRejects(() => new ConnectorClient(deps, "alpha", file).call("GET", "/v1/status"), CliError);
  assert(taken.bytes < 5 * 1024 * 1024, String(taken.bytes));
});

const ESCAPES = "\u001b]0;x\u0007";

Deno.test("an error code of an envelope becomes UNKNOWN_ERROR when its form is wrong", async () => {
  const codes = [`A${ESCAPES}`, "lower", "", "A".repeat(65), 7, null, { toString: "x" }, "A\n", "Ä"];
  for (const code of codes) {
    const text = JSON.stringify({ error: { code, message: "m" } });
    assertEquals(errorEnvelope(text), { code: "UNKNOWN_ERROR", message: "m" }, text);
    const known = { status: 400, text, requestId: null, retryAfter: null };
    assertEquals(apiErrorOf(known)?.code, "UNKNOWN_ERROR");
    const fetch = () => Promise.resolve(new Response(text, { status: 400 }));
    const deps = { fetch, clock: new ManualClock(), random: seededRandom(1) };
    const request = { method: "GET", url: "http://127.0.0.1:1/", response: null } as const;
    assertEquals((await assertRejects(() => callService(deps, request), ApiError)).code, "UNKNOWN_ERROR");
  }
  assertEquals(errorEnvelope('{"error":{"code":"A_1","message":"m"}}'), { code: "A_1", message: "m" });
  assertEquals(errorEnvelope(`{"error":{"code":"A","message":"${"x".repeat(9_999)}"}}`)?.message.length, 2_000);
  for (const text of ["", "[]", "null", '{"error":null}', '{"error":"x"}', "<html>"]) {
    assertEquals(errorEnvelope(text), null);
  }
});

Deno.test("an event in JSON holds no terminal control character and keeps its meaning", () => {
  let printed = "";
  const stdout = (text: string) => void (printed += text);
  const terminal = { stdout, stderr: stdout, stdoutIsTerminal: true, stderrIsTerminal: true };
  const why = `${ESCAPES}\u007f\u009b31m\u202e\u2066\u2028é😀`;
  viewOf({ clock: new ManualClock(), terminal, json: true, line: () => null }).event("refused", { why });
  // deno-lint-ignore no-control-regex
  assert(!/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/.test(printed), printed);
  assertEquals(JSON.parse(printed).why, why);
});
