/**
 * Shows the form of a log line: one JSON object on one line for any value, without the values of members whose names
 * mark them as secret.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { jsonLog, type Level, LimitedLog, type Log, silentLog } from "../../../shared/server/log.ts";
import { ManualClock } from "../../support/manual_clock.ts";

function logged(event: string, fields?: Record<string, unknown>, level: Level = "info"): string {
  const lines: string[] = [];
  jsonLog(new ManualClock(Date.UTC(2026, 1, 21)), "svc", (line) => lines.push(line))(level, event, fields);
  assertEquals(lines.length, 1);
  return lines[0] ?? "";
}

Deno.test("the JSON log writes time, level, service, event and fields", () => {
  assertEquals(
    logged("it_happened", { count: 1, code: "NOT_FOUND" }, "warn"),
    '{"ts":"2026-02-21T00:00:00.000Z","level":"warn","service":"svc","event":"it_happened","count":1,"code":"NOT_FOUND"}',
  );
  assertEquals(Object.keys(JSON.parse(logged("no_facts"))), ["ts", "level", "service", "event"]);
});

Deno.test("the JSON log redacts members by name at any depth", async (t) => {
  const secret = [
    "secret",
    "bootstrapSecret",
    "accessToken",
    "refresh_token",
    "token",
    "ticket",
    "password",
    "ait",
    "authorization",
    "X-Svc-Proof",
    "privateKey",
    "seed",
    "challengeSignature",
    "inviteCode",
    "X-Svc-Agent-Access",
  ];
  for (const name of secret) {
    await t.step(`hides ${name}`, () => {
      const line = logged("x", { [name]: "svc_pat_hidden", deep: { list: [{ [name]: "svc_pat_hidden" }] } });
      assert(!line.includes("svc_pat_hidden"), line);
      assertEquals(JSON.parse(line)[name], "[redacted]");
    });
  }
  const plain: [name: string, value: unknown][] = [
    ["code", "NOT_FOUND"],
    ["statusCode", "404"],
    ["requestId", "abcdefgh"],
    ["agentDid", "did:svc:a:agent:b"],
    ["aitJti", "01K"],
    ["token", ""],
    ["token", null],
    ["n", 12n],
  ];
  for (const [name, value] of plain) {
    await t.step(`shows ${name}`, () => {
      assertEquals(JSON.parse(logged("x", { [name]: value }))[name], typeof value === "bigint" ? "12" : value);
    });
  }
});

Deno.test("the JSON log redacts a secret that is percent-encoded any number of times", async (t) => {
  const encoded = (text: string) => [...utf8Bytes(text)].map((byte) => `%${byte.toString(16)}`).join("");
  const token = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl";
  for (const secret of ["svc_pat_abcdefgh", "svcpair1_abcdefgh", "svc_inv_abcdefgh", token]) {
    const forms = [
      secret,
      encoded(secret),
      encoded(encoded(secret)),
      encoded(encoded(encoded(encoded(secret)))),
      secret.replace("_", "%5F").replace(".", "%2E"),
      secret.replaceAll("e", "%65"),
      `eyJnot_a_token${secret}`,
    ];
    for (const form of forms) {
      await t.step(form.slice(0, 60), () => {
        const { path } = JSON.parse(logged("x", { path: `/v1/x/${form}` }));
        assert(path.startsWith("/v1/x/"), path);
        assert(path.endsWith("[redacted]"), path);
        assert(!path.includes("abcdefgh") && !path.includes("c2ln"), path);
      });
    }
  }
  for (const plain of ["/a%2Fb%zz%", "/%E2%82%AC", "/100%", "eyJnothing", "/%0a%7f", "%25253431"]) {
    await t.step(`keeps ${plain}`, () => assertEquals(JSON.parse(logged("x", { path: plain })).path, plain));
  }
});

Deno.test("the JSON log writes one line of JSON for any value", async (t) => {
  const hostile = [
    '\r\n{"level":"error"}',
    "\u001b[31mred",
    "\u2028\u2029",
    '"}',
    "\u0000",
    "\ud800",
    "x".repeat(100_000),
  ];
  for (const text of hostile) {
    await t.step(JSON.stringify(text.slice(0, 20)), () => {
      const line = logged("refused", { path: text, [text.slice(0, 10)]: 1 });
      assert(!/[\r\n]/.test(line));
      assertEquals(JSON.parse(line).path, text);
      assertEquals(JSON.parse(line).level, "info");
    });
  }
});

Deno.test("the JSON log writes an error with its cause, without its stack", () => {
  const cause = new TypeError("inner", { cause: new Error("innermost", { cause: { accessToken: "svc_agt_hidden" } }) });
  const line = logged("failed", { cause });
  assertEquals(JSON.parse(line).cause, {
    name: "TypeError",
    message: "inner",
    cause: { name: "Error", message: "innermost", cause: { accessToken: "[redacted]" } },
  });
  assert(!line.includes("log_test.ts"));
  assertStringIncludes(logged("failed", { cause: "a text" }), '"cause":"a text"');
});

Deno.test("the silent log writes nothing", () => assertEquals(silentLog("error", "x", { a: 1 }), undefined));

Deno.test("of more than 20 lines of one code in a second the others are one line with their number", async () => {
  const clock = new ManualClock();
  const lines: Parameters<Log>[] = [];
  const limited = new LimitedLog((...line) => lines.push(line), clock);
  const refuse = (code: string, times: number) => {
    for (let i = 0; i < times; i++) limited.log("info", "request_refused", { code, requestId: `request-${i}` });
  };
  const leftOut = () => lines.splice(0).filter(([, event]) => event === "log_lines_left_out");
  refuse("NOT_FOUND", 1_000);
  refuse("CRL_NOT_FOUND", 20);
  for (let i = 0; i < 25; i++) limited.log("warn", "presence_failed", { agentDid: `agent-${i}` });
  assertEquals(lines.length, 60);
  assertEquals(lines[19]?.[2]?.requestId, "request-19");
  await clock.advance(999);
  refuse("NOT_FOUND", 1);
  await clock.advance(1);
  assertEquals(leftOut(), [
    ["info", "log_lines_left_out", { of: "request_refused", code: "NOT_FOUND", lines: 981 }],
    ["warn", "log_lines_left_out", { of: "presence_failed", code: undefined, lines: 5 }],
  ]);
  refuse("NOT_FOUND", 20);
  await clock.advance(1_000);
  assertEquals([lines.length, leftOut().length], [20, 0], "the next second has its own lines");
  for (let i = 0; i < 100; i++) limited.log("info", "request_done", { status: 200 });
  assertEquals(lines.length, 100, "the operator asked for a line for each success");
  refuse("NOT_FOUND", 21);
  limited.endSecond();
  assertEquals(leftOut().length, 1, "at the end of the server");
});
