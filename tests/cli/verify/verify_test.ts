/** svc verify: every named check of a token or a request, with the canonical string; offline with the saved keys. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { messageTarget } from "../../../shared/protocol/message_context.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { keepCopy } from "../../../cli/verify/trusted_keys.ts";
import { parseRequestFile } from "../../../cli/verify/request_file.ts";
import { vectors } from "../../support/vectors.ts";
import { PROXY_URL, REGISTRY_URL, type RequestParts, type TestAgent, type World } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";
import { contextOf } from "../connector/context.ts";
import { type Check, failing, skipping } from "./checks.ts";

/** The output of `svc verify`, for any result. */
async function verifyJson(machine: Machine, ...argv: string[]) {
  const { code, stdout, stderr } = await machine.svc("--json", "verify", ...argv);
  assertEquals(stderr, "");
  const result = JSON.parse(stdout) as {
    valid: boolean;
    checks: Check[];
    canonical?: string;
    claims: { jti: string } | null;
  };
  assertEquals(code, result.valid ? 0 : 1);
  return result;
}

/** The output of `svc verify --request` for the text of a request. */
async function verifyRequest(machine: Machine, text: string, ...more: string[]) {
  machine.write("request.http", text);
  return await verifyJson(machine, "--request", machine.path("request.http"), ...more);
}

/** A request as the text of an HTTP message. */
async function message(world: World, agent: TestAgent, parts: RequestParts = {}): Promise<string> {
  const request = await world.signed(agent, { recipient: agent.agent.did, body: '{"message":"hi"}', ...parts });
  const { pathname, search, host } = new URL(request.url);
  const headers = [...request.headers].map(([name, value]) => `${name}: ${value}`);
  return [`${request.method} ${pathname}${search} HTTP/1.1`, `host: ${host}`, ...headers, "", await request.text()]
    .join("\r\n");
}

Deno.test("svc verify shows eight passed checks and the subject of a valid token", async () => {
  await using machine = await Machine.open();
  const { identity, agent } = await machine.world.agent();
  const result = await verifyJson(machine, identity.ait);
  const names = "form header issuer key signature claims lifetime revocation".split(" ");
  assertEquals(result.checks.map(({ name }) => name), names);
  assertEquals([result.valid, result.claims?.jti, skipping(result.checks)], [true, agent.currentJti, []]);
  const { stdout } = await machine.svc("verify", identity.ait);
  for (const part of ["✓ signature", agent.did, agent.ownerDid, agent.name]) assertStringIncludes(stdout, part);
  machine.stdin = `${identity.ait}\n`;
  assertEquals((await verifyJson(machine, "-")).valid, true);
});

Deno.test("svc verify fails at the failing check and skips the later ones", async (t) => {
  await using machine = await Machine.open();
  const owner = await machine.world.person();
  const { identity: { ait }, agent } = await machine.world.agent(owner);
  const [head = "", payload = "", signature = ""] = ait.split(".");
  const reheaded = (header: object) => `${btoa(JSON.stringify(header)).replace(/=+$/, "")}.${payload}.${signature}`;
  const { kid } = JSON.parse(atob(head)) as { kid: string };
  const foreign = `${head}.${btoa('{"iss":"https://other.example"}').replace(/=+$/, "")}.${signature}`;
  const sameIssuer = vectors("ait").valid[0]?.token ?? "";
  const cases: [string, string, string][] = [
    ["two parts", `${head}.${payload}`, "form"],
    ["rubbish", "rubbish", "form"],
    ["empty parts", "..", "form"],
    ["alg none", reheaded({ alg: "none", typ: "AIT", kid }), "header"],
    ["typ CRL", reheaded({ alg: "EdDSA", typ: "CRL", kid }), "header"],
    ["another registry's", foreign, "issuer"],
    ["one that another key signed in its name", sameIssuer, "key"],
    ["an unknown key", reheaded({ alg: "EdDSA", typ: "AIT", kid: "nobody" }), "key"],
    ["a changed signature", `${head}.${payload}.${"A".repeat(86)}`, "signature"],
  ];
  for (const [what, token, step] of cases) {
    await t.step(what, async () => {
      const { checks } = await verifyJson(machine, token);
      assertEquals(failing(checks), [step]);
      const at = checks.findIndex(({ name }) => name === step);
      assert(checks.slice(0, at).every(({ result }) => result === "passed"));
      assert(checks.slice(at + 1).every(({ result }) => result === "skipped"));
    });
  }
  await t.step("expired, and not yet valid, at another time", async () => {
    assertEquals(failing((await verifyJson(machine, ait, "--at", "2026-04-01T00:00:00Z")).checks), ["lifetime"]);
    assertEquals(failing((await verifyJson(machine, ait, "--at", "2026-02-20T23:59:59Z")).checks), ["lifetime"]);
    assertEquals((await verifyJson(machine, ait, "--at", "2026-03-01T00:00:00Z")).valid, true);
  });
  await t.step("revoked", async () => {
    await machine.world.client.deleteAgent(owner.apiKey, agent.id);
    const { checks } = await verifyJson(machine, ait);
    assertEquals(failing(checks), ["revocation"]);
    assertStringIncludes(checks.at(-1)?.detail ?? "", "agent_deleted");
  });
});

Deno.test("svc verify reports what the text is when it is not an AIT", async () => {
  await using machine = await Machine.open();
  for (const token of ["svc_pat_abc", "svc_rft_abc", "svcpair1_abc"]) {
    const message = await machine.refuses(["verify", token], 2, "CLI_USAGE", "is not an identity token");
    assert(!message.includes("abc"));
  }
  assertEquals((await machine.failure("verify")).exit, 2);
  assertEquals((await machine.failure("verify", "x", "--request", "y")).exit, 2);
  assertEquals((await machine.failure("verify", "x", "--at", "yesterday")).exit, 2);
});

Deno.test("svc verify fetches the registry's keys, also shortly after a previous fetch", async () => {
  await using machine = await Machine.open();
  const { identity } = await machine.world.agent();
  assertEquals((await verifyJson(machine, identity.ait)).valid, true);
  machine.changeAnswers(
    /\/svc-keys\.json$/,
    (body) => JSON.parse(JSON.stringify(body).replaceAll(/"kid":"[^"]+"/g, '"kid":"another"')),
  );
  const result = await verifyJson(machine, identity.ait);
  assertEquals([result.valid, failing(result.checks)], [false, ["key"]]);
});

Deno.test("svc verify works offline with the saved keys only when offline is chosen", async () => {
  await using machine = await Machine.open();
  const { identity } = await machine.world.agent();
  assertEquals((await machine.failure("verify", identity.ait, "--offline")).exit, 5);
  await verifyJson(machine, identity.ait);
  const sent = machine.requests.length;
  machine.world.clock.step(86_400_000);
  const { valid, checks } = await verifyJson(machine, identity.ait, "--offline");
  assertEquals([valid, skipping(checks), machine.requests.length], [true, ["revocation"], sent]);
  machine.fetch = () => Promise.reject(new TypeError("no network"));
  const unplugged = await verifyJson(machine, identity.ait);
  assertEquals([unplugged.valid, skipping(unplugged.checks)], [true, ["revocation"]]);
  // What a front answers for a registry that is being started again.
  machine.fetch = () => Promise.resolve(new Response("<html>Bad Gateway</html>", { status: 502 }));
  assertEquals((await verifyJson(machine, identity.ait)).valid, true);
  machine.fetch = () => Promise.reject(new TypeError("no network"));
  machine.write(`keys/${encodeURIComponent(REGISTRY_URL)}.json`, "rubbish");
  assertEquals((await machine.failure("verify", identity.ait)).exit, 5);
});

Deno.test("svc verify shows every check of a request and the canonical string that was signed", async () => {
  await using machine = await Machine.open();
  const agent = await machine.world.agent();
  const { valid, checks, canonical } = await verifyRequest(machine, await message(machine.world, agent));
  assertEquals([valid, skipping(checks)], [true, ["context", "trust, access token, rate limit"]]);
  const lines = canonical?.split("\n") ?? [];
  assertEquals([lines.length, ...lines.slice(0, 4)], [9, "SVC-PROOF-V1", "POST", PROXY_URL, "/hooks/agent"]);
  assertEquals(lines[7], agent.agent.did);
  const { stdout } = await machine.svc("verify", "--request", machine.path("request.http"));
  for (const line of lines) assertStringIncludes(stdout, line);
});

Deno.test("svc verify names the check of a request that fails", async (t) => {
  await using machine = await Machine.open();
  const agent = await machine.world.agent();
  const good = await message(machine.world, agent);
  const without = (name: string) => good.replace(new RegExp(`^${name}:.*\r\n`, "im"), "");
  const withHeader = (name: string, value: string) => good.replace(new RegExp(`^(${name}): .*$`, "im"), `$1: ${value}`);
  const cases: [string, string, string[]][] = [
    ["no token", without("authorization"), ["Authorization", "token form"]],
    ["Bearer", good.replace("Svc ey", "Bearer ey"), ["Authorization", "token form"]],
    ["another body", good.replace('"hi"', '"ho"'), ["body hash"]],
    ["no body hash", without(HEADERS.bodySha256), ["body hash", "proof"]],
    ["another path", good.replace("/hooks/agent", "/hooks/agenT"), ["proof"]],
    ["another method", good.replace("POST", "PUT"), ["proof"]],
    ["no proof", without(HEADERS.proof), ["proof"]],
    ["no nonce", without(HEADERS.nonce), ["proof", "nonce"]],
    ["a bad timestamp", withHeader(HEADERS.timestamp, "soon"), ["timestamp", "proof"]],
    ["an old one", await message(machine.world, agent, { timestamp: "1771631000" }), ["timestamp"]],
  ];
  for (const [what, text, steps] of cases) {
    await t.step(what, async () => {
      assertEquals(failing((await verifyRequest(machine, text)).checks), steps);
    });
  }
  await t.step("an old request was valid at its time", async () => {
    const text = await message(machine.world, agent);
    machine.world.clock.step(3_600_000);
    assertEquals(failing((await verifyRequest(machine, text)).checks), ["timestamp"]);
    assertEquals((await verifyRequest(machine, text, "--at", "2026-02-21T00:01:00Z")).valid, true);
  });
});

Deno.test("svc verify compares the headers of a message with its signed context after the body hash", async (t) => {
  await using machine = await Machine.open();
  const agent = await machine.world.agent();
  const headers = { "Content-Type": "application/json", "x-request-id": "request-0001", [HEADERS.auto]: "1" };
  const target = await messageTarget(headers);
  const good = await message(machine.world, agent, { target, headers });
  const again = await message(machine.world, agent, { target: `${target}&${target.split("?")[1]}`, headers });
  const rows: [name: string, text: string, expected: string][] = [
    ["the signed headers", good, "passed"],
    ["a changed one", good.replace("request-0001", "request-0002"), "failed"],
    ["a removed one", good.replace(/^x-svc-auto: 1\r\n/im, ""), "failed"],
    ["no request ID", good.replace(/^x-request-id: .*\r\n/im, ""), "failed"],
    ["two hashes", again, "failed"],
  ];
  for (const [name, text, expected] of rows) {
    await t.step(name, async () => {
      const { valid, checks } = await verifyRequest(machine, text);
      assertEquals([valid, failing(checks)], expected === "passed" ? [true, []] : [false, ["context"]]);
      const at = checks.findIndex(({ name }) => name === "body hash");
      assertEquals([checks[at + 1]?.name, checks[at + 1]?.result], ["context", expected]);
    });
  }
});

Deno.test("svc verify finds the wrong origin that a request was signed for", async () => {
  await using machine = await Machine.open();
  const agent = await machine.world.agent();
  for (const origin of [`http://${new URL(PROXY_URL).host}`, REGISTRY_URL]) {
    const text = await message(machine.world, agent, { signed: { origin } });
    const { checks } = await verifyRequest(machine, text);
    assertEquals(failing(checks), ["proof"]);
    const { detail } = checks.find(({ name }) => name === "proof")!;
    assertStringIncludes(detail, `signed for ${origin}`);
    assertStringIncludes(detail, PROXY_URL);
    assertEquals((await verifyRequest(machine, text, "--origin", origin)).valid, true);
  }
});

Deno.test("svc verify checks a refresh against the registry's origin and reads JSON and standard input", async () => {
  await using machine = await Machine.open();
  const agent = await machine.world.agent();
  const body = '{"refreshToken":"x"}';
  const request = await machine.world.signed(agent, { base: REGISTRY_URL, target: "/v1/agents/auth/refresh", body });
  const { method, url, headers } = request;
  machine.stdin = JSON.stringify({ method, url, headers: Object.fromEntries(headers), body });
  assertEquals((await verifyJson(machine, "--request", "-")).valid, true);
});

Deno.test("svc verify ignores the line feed that editors add to a request file", async () => {
  await using machine = await Machine.open();
  for (const ending of ["\n", "\r\n"]) {
    const text = await message(machine.world, await machine.world.agent());
    const { valid, checks } = await verifyRequest(machine, text + ending);
    assertEquals(valid, true);
    assertStringIncludes(checks.find(({ name }) => name === "body hash")!.detail, "without the file's last line feed");
  }
});

Deno.test("svc verify refuses text that is not a request", async () => {
  await using machine = await Machine.open();
  const spaced = '{"method":"GET","url":"/x y","headers":{}}';
  for (const text of ["", "rubbish", "GET\n", "{}", "{", spaced, "POST /x\nno colon\n\n"]) {
    machine.write("request.http", text);
    assertEquals((await machine.failure("verify", "--request", machine.path("request.http"))).exit, 2, text);
  }
  assertEquals((await machine.failure("verify", "--request", machine.path("none"))).exit, 2);
  assertEquals(machine.requests, []);
});

Deno.test("a request file keeps its target and body unchanged", () => {
  const file = parseRequestFile(utf8Bytes("POST https://P.example/%61//b?c=%20 HTTP/1.1\nA: 1\nA: 2\n\n{\n \u00e4}\n"));
  assertEquals([file?.method, file?.origin, file?.target], ["POST", "https://p.example", "/%61//b?c=%20"]);
  assertEquals([file?.headers.get("a"), new TextDecoder().decode(file?.body)], ["1, 2", "{\n \u00e4}\n"]);
});

Deno.test("a copy of the keys that cannot be saved, because its folder is gone, fails no command", async () => {
  await using machine = await Machine.ofPerson();
  const context = contextOf(machine.world, machine), { clock } = machine.world;
  const now = () => {
    Deno.removeSync(machine.path("keys"), { recursive: true });
    return clock.now();
  };
  const removing = { now, uptime: () => clock.uptime(), after: clock.after.bind(clock) };
  await keepCopy({ ...context, clock: removing }, "keys.json", "{}");
  assertEquals(Object.keys(machine.tree()).filter((file) => file.startsWith("keys")), []);
});
