/** How the CLI calls the services: redirects, time-outs, invalid answers, exit codes. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ERRORS } from "../../../shared/protocol/errors.ts";
import { CLI_ERRORS, CliError, describe, EXIT } from "../../../cli/errors.ts";
import { LocalDown } from "../../../shared/client/errors.ts";
import { ApiError, UnreachableError } from "../../support/agent_client.ts";
import { until } from "../../support/until.ts";
import { REGISTRY_URL } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";

/** A request without an answer until it is aborted. */
const silence: typeof fetch = (_input, init) =>
  new Promise((_, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason)));

Deno.test("a redirect is not followed, and no secret goes to its target", async (t) => {
  for (const status of [301, 302, 303, 307, 308]) {
    await t.step(String(status), async () => {
      await using machine = await Machine.ofPerson();
      await machine.json("agent", "create", "alpha");
      const asked: string[] = [];
      machine.fetch = (input, init) => {
        asked.push(String(input));
        assertEquals(init?.redirect, "manual");
        return Promise.resolve(new Response(null, { status, headers: { Location: "https://canary.example/" } }));
      };
      const commands = [["api-key", "list"], ["agent", "auth", "refresh", "alpha"], ["invite", "redeem", "svc_inv_x"]];
      for (const argv of commands) {
        await machine.refuses(argv, 5, "CLI_UNREACHABLE", "redirect, which is not followed");
      }
      assert(asked.every((url) => url.startsWith(REGISTRY_URL)));
    });
  }
});

Deno.test("a key or secret with a line break is refused as one, and no service is called", async () => {
  await using machine = await Machine.ofPerson();
  machine.fetch = () => Promise.reject(new Error("called"));
  for (const argv of [["whoami", "--api-key"], ["admin", "bootstrap", "--bootstrap-secret"]]) {
    await machine.refuses([...argv, "svc_pat_a\nb"], 2, "CLI_USAGE", "has a line break");
  }
});

Deno.test("a command ends with exit code 5 after 30 s without an answer", async () => {
  await using machine = await Machine.ofPerson();
  machine.fetch = silence;
  const waiting = machine.failure("api-key", "list");
  await until(() => machine.requests.length === 1);
  await machine.world.clock.advance(29_999);
  assert(machine.world.clock.waiting > 0, "it still waits");
  await machine.world.clock.advance(1);
  const { exit, message } = await waiting;
  assertEquals(exit, 5);
  assertStringIncludes(message, "within 30 s");
  assertEquals(machine.world.clock.waiting, 0);
});

Deno.test("a command ends after 10 s without a connection; a slow service with one gets 30 s", async () => {
  await using machine = await Machine.ofPerson();
  machine.fetch = silence;
  machine.reach = () => Promise.resolve(false);
  const refused = machine.failure("api-key", "list");
  await until(() => machine.requests.length === 1);
  await machine.world.clock.advance(10_000);
  assertStringIncludes((await refused).message, "did not accept a connection within 10 s");
  machine.reach = () => Promise.resolve(true);
  const slow = machine.failure("api-key", "list");
  await until(() => machine.requests.length === 2);
  await machine.world.clock.advance(30_000);
  assertStringIncludes((await slow).message, "within 30 s");
});

Deno.test("an answer that is not from the registry is reported as such", async (t) => {
  await using machine = await Machine.ofPerson();
  const answers: [string, () => Response][] = [
    ["HTML", () => new Response("<html>", { headers: { "Content-Type": "text/html" } })],
    ["nothing", () => new Response("")],
    ["other JSON", () => Response.json({ hello: "world" })],
    ["a list", () => Response.json([])],
    ["endless", () => new Response(new ReadableStream({ pull: (c) => c.enqueue(new Uint8Array(4 * 1024 * 1024)) }))],
  ];
  for (const [what, answer] of answers) {
    await t.step(what, async () => {
      machine.fetch = () => Promise.resolve(answer());
      await machine.refuses(["api-key", "list"], 5, "CLI_UNREACHABLE");
    });
  }
});

Deno.test("a refusal without an envelope still has a code and an exit code", async (t) => {
  await using machine = await Machine.ofPerson();
  for (const [status, exit] of [[400, 1], [401, 3], [403, 3], [404, 4], [429, 1], [500, 1], [503, 1]]) {
    await t.step(String(status), async () => {
      machine.fetch = () => Promise.resolve(new Response("Bad gateway", { status: status ?? 0 }));
      await machine.refuses(["api-key", "list"], exit ?? 0, `HTTP_${status}`);
    });
  }
});

Deno.test("a rate limit reports how long to wait", async () => {
  await using machine = await Machine.ofPerson();
  await machine.json("agent", "create", "alpha");
  for (let i = 0; i < 20; i++) await machine.svc("agent", "auth", "refresh", "alpha");
  const message = await machine.refuses(["agent", "auth", "refresh", "alpha"], 1, "RATE_LIMIT_EXCEEDED");
  assert(/Wait \d+ s/.test(message), message);
});

Deno.test("every code of both services maps to the exit code of its status", () => {
  for (const [code, { status }] of Object.entries(ERRORS)) {
    for (const one of [status].flat()) {
      const { exit, cause, fix } = describe(new ApiError(one, code, "why", null));
      assertEquals(exit, one === 401 || one === 403 ? 3 : one === 404 ? 4 : 1, code);
      assert(cause === "why" && fix !== "", code);
    }
  }
  assertEquals(describe(new UnreachableError("gone")).exit, 5);
  const silent = new LocalDown("alpha", "does not answer", { silentPid: 7 });
  assertEquals(describe(silent).fix, "Stop process 7, then run svc connector start alpha.");
  assertEquals(describe(new CliError("CLI_USAGE", "wrong")).exit, 2);
  assertEquals(describe(new CliError("API_KEY_MISSING", "none")).exit, 3);
  assertEquals(describe(new Error("bug")), {
    code: "CLI_UNEXPECTED",
    cause: "Error: bug",
    details: [],
    fix: CLI_ERRORS.CLI_UNEXPECTED.fix,
    exit: EXIT.failed,
    requestId: null,
  });
  const full = describe(new Error("No space left on device (os error 28)"));
  assertEquals([full.code, full.cause], ["CLI_SAVE_FAILED", "The disk is full"]);
});

Deno.test("the CLI and the services share no error code", () => {
  assertEquals(Object.keys(CLI_ERRORS).filter((code) => Object.hasOwn(ERRORS, code)), []);
});
