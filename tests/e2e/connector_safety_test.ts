/**
 * What a connector process protects (D-87): the hook token, from every origin but the configured runtime; its local
 * API, from web pages and other machines; and its traffic, from a network where others can read.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { attemptHere, Listener, RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { eventually, Service, SOON_MS } from "../support/process.ts";
import { pairedAgents } from "./harness.ts";

const program = await bundledProgram();
const HOOK_TOKEN = "hook-token-that-nobody-else-may-see";

/** Every file in a folder, as bytes that could hold a secret. */
function contents(folder: string): string {
  return [...Deno.readDirSync(folder)].map(({ name, isDirectory }) =>
    isDirectory
      ? contents(`${folder}/${name}`)
      : new TextDecoder("latin1").decode(Deno.readFileSync(`${folder}/${name}`))
  ).join("\n");
}

Deno.test("the hook token goes to the configured origin only and appears in no output and no file", async () => {
  await using service = await Service.here();
  const { a, b } = await pairedAgents(service, service.home);
  const { did } = b.agent;
  let strayed = 0;
  await using canary = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => {
    strayed++;
    return new Response();
  });
  const elsewhere = `http://127.0.0.1:${canary.addr.port}/x`;
  // Each kind of redirect, then success.
  const answers = [302, 307, 308, 200];
  const tokens: (string | null)[] = [];
  await using runtime = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, ({ method, headers }) => {
    if (method !== "POST") return new Response(null, { status: 302, headers: { Location: elsewhere } });
    tokens.push(headers.get("authorization"));
    return new Response(null, { status: answers[tokens.length - 1] ?? 200, headers: { Location: elsewhere } });
  });
  const runtimeUrl = `http://127.0.0.1:${runtime.addr.port}`;
  const env = { SVC_HOOK_TOKEN: HOOK_TOKEN };
  await using connector = await RunningConnector.start(service.home, "b", ["--runtime-base-url", runtimeUrl], {
    env,
    program,
  });
  const members = ["url", "headers", "replyTo", "callback", "webhook", "runtimeBaseUrl", "hookPath", "redirect"];
  const payload = { message: "hi", ...Object.fromEntries(members.map((name) => [name, elsewhere])) };
  const { requestId } = await a.client.sendMessage({ recipientDid: did, payload: JSON.stringify(payload) });
  await eventually(SOON_MS, "the runtime has taken it", async () => {
    const { receipts } = await a.client.receipts(requestId, did);
    return receipts[0]?.status === "processed_by_svc" || undefined;
  });
  const results = [
    await attemptHere(service.home, ["connector", "status"], env),
    await attemptHere(service.home, ["provider", "doctor"], env),
    await attemptHere(
      service.home,
      ["connector", "start", "b", "--runtime-base-url", runtimeUrl, "--hook-token", `${HOOK_TOKEN} x`],
    ),
  ];
  assertEquals(results.map(({ code }) => code), [0, 0, 2]);
  const commandLine = Deno.build.os === "linux" ? Deno.readTextFileSync(`/proc/${connector.file.pid}/cmdline`) : "";
  await connector.child.end("SIGTERM");
  assertEquals([tokens, strayed], [answers.map(() => `Bearer ${HOOK_TOKEN}`), 0]);
  for (const text of [connector.child.printed, JSON.stringify(results), commandLine, contents(service.home)]) {
    assert(!text.includes(HOOK_TOKEN), text.slice(0, 2_000));
  }
});

Deno.test("the local API refuses web pages, other host names and other machines", async (t) => {
  await using service = await Service.here();
  await pairedAgents(service, service.home);
  await using runtime = new Listener();
  await using connector = await RunningConnector.start(service.home, "b", ["--runtime-base-url", runtime.url], {
    program,
  });
  const { url, token } = connector.file;
  const port = Number(new URL(url).port);

  const raw = async (lines: string[], hostname = "127.0.0.1") => {
    const socket = await Deno.connect({ hostname, port });
    await socket.write(new TextEncoder().encode(`${[...lines, "Connection: close", "", ""].join("\r\n")}`));
    return await new Response(socket.readable).text();
  };
  const get = (...headers: string[]) => raw(["GET /v1/status HTTP/1.1", ...headers]);
  const [host, bearer] = [`Host: 127.0.0.1:${port}`, `Authorization: Bearer ${token}`];
  const refused = async (what: string, code: string, lines: string[]) => {
    await t.step(what, async () => {
      const answer = await raw(lines);
      assertStringIncludes(answer, code);
      assert(!/access-control-allow/i.test(answer) && !answer.includes(token), answer);
      assertStringIncludes(answer.toLowerCase(), "cross-origin-resource-policy: same-origin");
    });
  };

  assertStringIncludes(await get(host, bearer), '"state":"connected"');
  const origin = "Origin: https://evil.example";
  const [FORBIDDEN_HOST, FORBIDDEN_ORIGIN] = ["CONNECTOR_HOST_FORBIDDEN", "CONNECTOR_ORIGIN_FORBIDDEN"];
  await refused("a preflight", FORBIDDEN_ORIGIN, [
    "OPTIONS /v1/outbound HTTP/1.1",
    ...[host, origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization"],
    "Access-Control-Request-Private-Network: true",
  ]);
  await refused("a page that has the token", FORBIDDEN_ORIGIN, ["GET /v1/status HTTP/1.1", host, bearer, origin]);
  await refused("a sandboxed page", FORBIDDEN_ORIGIN, ["GET /v1/status HTTP/1.1", host, bearer, "Origin: null"]);
  for (const site of ["cross-site", "same-site", "same-origin"]) {
    await refused(`an image of a ${site} page, which has no Origin`, FORBIDDEN_ORIGIN, [
      ...["GET /v1/status HTTP/1.1", host, bearer, `Sec-Fetch-Site: ${site}`, "Sec-Fetch-Mode: no-cors"],
    ]);
  }
  await refused("a form of a page", FORBIDDEN_ORIGIN, [
    ...["POST /v1/dead-letter/purge HTTP/1.1", host, origin, "Content-Type: text/plain", "Content-Length: 0"],
  ]);
  await refused("a WebSocket of a page", FORBIDDEN_ORIGIN, [
    ...["GET /v1/status HTTP/1.1", host, origin, "Upgrade: websocket", "Sec-WebSocket-Version: 13"],
  ]);
  await refused("the token in the query", "CONNECTOR_UNAUTHORIZED", [
    `GET /v1/status?token=${token.slice(1)} HTTP/1.1`,
    host,
  ]);
  for (const name of ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "localhost.", "0.0.0.0"]) {
    await refused(`a page that calls us ${name}`, FORBIDDEN_HOST, [
      ...["GET /v1/status HTTP/1.1", `Host: ${name}:${port}`, bearer],
    ]);
  }
  await refused("no Host", FORBIDDEN_HOST, ["GET /v1/status HTTP/1.0", bearer]);
  await t.step("two Hosts", async () => {
    assert(!(await get(host, "Host: evil.example", bearer)).includes('"state"'));
  });
  await t.step("other machines cannot connect", async () => {
    const others = Deno.networkInterfaces().filter(({ address, family }) =>
      family === "IPv4" && !address.startsWith("127.")
    );
    if (others.length === 0) console.log("Other machines' view is NOT checked here: there is no network but loopback");
    for (const { address } of others) {
      const socket = await Deno.connect({ hostname: address, port }).catch(() => null);
      socket?.close();
      assertEquals(socket, null, `it listens on ${address}`);
    }
  });
  await t.step("other users cannot read the token", () => {
    const mode = (path: string) => (Deno.statSync(`${service.home}/${path}`).mode ?? 0) & 0o777;
    assertEquals(["agents", "agents/b"].map(mode), [0o700, 0o700]);
    assertEquals(["connector.json", "connector.curl", "connector.db"].map((file) => mode(`agents/b/${file}`)), [
      ...[0o600, 0o600, 0o600],
    ]);
  });
  await t.step("an authorised caller still gets an answer", async () => {
    assertEquals((await connector.call("GET", "/v1/status")).status, 200);
  });
});
