/** The row of an A2A agent (D-134): health by its card, set-up for OpenClaw and Hermes, and the settings of a peer (D-135). */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { A2A } from "../../../cli/platforms/a2a.ts";
import type { Machine } from "../../../cli/platforms/platform.ts";
import { withA2aPeer } from "../../../cli/platforms/openclaw.ts";
import { CliError } from "../../../cli/errors.ts";

const PATH = "/home/me/.openclaw/openclaw.json";

function machine(settings: unknown = null): Machine {
  const text = settings === null ? null : typeof settings === "string" ? settings : JSON.stringify(settings);
  return {
    home: "/home/me",
    env: () => undefined,
    ask: () => Promise.resolve(null),
    run: () => Promise.resolve(null),
    read: (path) => Promise.resolve(path === PATH ? text : null),
    exists: (path) => Promise.resolve(path === PATH && text !== null),
  };
}

const target = (hookPath = "/a2a/v1", hookToken: string | null = null) => ({
  platform: "a2a" as const,
  baseUrl: "http://127.0.0.1:18789",
  hookPath,
  hookToken,
});
const plan = (settings: unknown, at = target()) =>
  A2A.plan(machine(settings), { target: at, stateDir: null, makeToken: () => "made" });

Deno.test("an agent is healthy when its card has a JSON-RPC interface of A2A 1.x", () => {
  const card = (interfaces: unknown) => JSON.stringify({ name: "x", supportedInterfaces: interfaces });
  const of = (protocolBinding: string, protocolVersion: string) => ({
    url: "http://x/",
    protocolBinding,
    protocolVersion,
  });
  const isHealthy = (body: string, status = 200) => A2A.health?.isHealthy(status, body);
  assertEquals(isHealthy(card([of("GRPC", "1.0"), of("JSONRPC", "1.0")])), true);
  assertEquals(isHealthy(card([of("JSONRPC", "1.2")])), true);
  const not = [
    card([]),
    card([of("JSONRPC", "0.3")]),
    card([of("HTTP+JSON", "1.0")]),
    card({}),
    "{}",
    "[]",
    "<html>",
    "",
  ];
  assertEquals(not.map((body) => isHealthy(body)), not.map(() => false));
  assertEquals(isHealthy(card([of("JSONRPC", "1.0")]), 404), false);
});

Deno.test("set-up turns the A2A channel of a found OpenClaw on, and prints the lines for Hermes at any other address", async () => {
  const before = { gateway: { port: 18789 }, channels: { other: {}, a2a: { peers: { hermes: { token: "h" } } } } };
  const { change, steps, hookToken } = await plan(before);
  assertEquals([change?.path, hookToken], [PATH, "made"]);
  const peers = { hermes: { token: "h" }, svc: { token: "made" } };
  assertEquals(JSON.parse(change?.text ?? ""), {
    ...before,
    channels: { other: {}, a2a: { peers, enabled: true } },
  });
  assertEquals(steps, []);
  assertEquals((await plan(JSON.parse(change?.text ?? ""))).change, null);
  const hermes = { ...target(), baseUrl: "http://127.0.0.1:9900" };
  for (const [settings, at] of [[null, target()], [before, target("/")], [before, hermes]] as const) {
    const { change, steps } = await plan(settings, at);
    assertEquals(change, null);
    assertStringIncludes(steps[0] ?? "", `A2A_PORT=${new URL(at.baseUrl).port} and A2A_PEER_TOKENS=svc:made`);
  }
  await assertRejects(() => plan("// comment"), CliError, "not a plain JSON object");
});

Deno.test("it is never detected, and takes the port of a found OpenClaw", async () => {
  assertEquals(await A2A.detect(machine({ gateway: { port: 4711 } }), null), {
    confidence: "none",
    reasons: [],
    configPath: null,
    baseUrl: "http://127.0.0.1:4711",
  });
  assertEquals((await A2A.detect(machine(), null)).baseUrl, undefined);
});

Deno.test("the hook check names a channel that is off and a token that is not that of the settings", async () => {
  const inspect = (settings: unknown, hookPath = "/a2a/v1") =>
    A2A.inspectHook?.(machine(settings), target(hookPath, "t"), null);
  const on = (token: string) => ({ channels: { a2a: { enabled: true, peers: { svc: { token } } } } });
  assertEquals(await inspect(on("t")), null);
  assertEquals(await inspect(null), null);
  assertEquals(await inspect({}, "/"), null);
  assertEquals(await inspect({}), `the A2A channel is off in ${PATH}`);
  assertEquals(await inspect({ gateway: { port: 1 } }), null, "another agent, such as Hermes, listens at the address");
  for (const port of [99_999, -1, 1.5]) {
    assertEquals(await inspect({ gateway: { port } }), `the A2A channel is off in ${PATH}`, "it counts as the default");
  }
  const problem = await inspect(on("secret"));
  assertEquals(problem, `the token of the peer svc is not that of ${PATH}`);
});

Deno.test("a peer in the settings of OpenClaw keeps every other member, and no peer takes the name of another", async () => {
  const peer = { url: "http://127.0.0.1:19400/a2a/Beta", token: "in", outboundToken: "out" };
  const before = { x: 1, channels: { a2a: { peers: { hermes: { token: "h" } } } } };
  const { path, name, text } = await withA2aPeer(machine(before), null, "Beta", peer);
  assertEquals([path, name], [PATH, "svc-beta"]);
  const after = JSON.parse(text);
  assertEquals(after, {
    x: 1,
    channels: { a2a: { enabled: true, peers: { hermes: { token: "h" }, "svc-beta": peer } } },
  });
  await withA2aPeer(machine(after), null, "Beta", { ...peer, outboundToken: "next" });
  const other = { ...peer, url: "http://127.0.0.1:19400/a2a/beta" };
  await assertRejects(() => withA2aPeer(machine(after), null, "beta", other), CliError, "with another address");
  await assertRejects(() => withA2aPeer(machine(), null, "beta", peer), CliError, "is OpenClaw installed");
});
