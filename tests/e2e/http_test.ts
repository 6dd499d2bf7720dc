/**
 * HTTP as bytes: framing that two parsers could read differently, bodies that are too large or never end,
 * repeated headers, foreign hosts. Requests that `fetch` would normalise are written by hand.
 */
import { assert, assertEquals } from "@std/assert";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { parseTicket } from "../../shared/protocol/ticket.ts";
import {
  BOOTSTRAP_SECRET,
  type Connector,
  type LiveAgent,
  Service,
  startServerHere,
  tempFolder,
} from "../support/process.ts";
import {
  codeOf,
  type HeaderLine,
  type RawAnswer,
  RawConnection,
  rawExchange,
  rawRequest,
  signedLines,
  usualLines,
} from "../support/raw_http.ts";
import { steps } from "../support/steps.ts";

const HOOK = "/hooks/agent";
const REDEEM = "/v1/invites/redeem";
const BODY = '{"message":"hi"}';

let service: Service;
let a: LiveAgent;
let b: LiveAgent;
let connector: Connector;
Deno.test.beforeAll(async () => {
  service = await Service.open();
  ({ a, b } = await service.agents());
  connector = await service.connect(b);
});
Deno.test.afterAll(async () => {
  await connector?.close();
  await service?.[Symbol.asyncDispose]();
});

/** Header lines of a message from `a` to `b`, signed now. */
const hookLines = (recipient = b.identity.did) => signedLines(service.url, a, { body: BODY, recipient });

async function hook(lines: readonly HeaderLine[], target = HOOK): Promise<RawAnswer | null> {
  return await rawExchange(service.url, rawRequest("POST", target, lines, BODY));
}

/** An answer as status and code; `closed` for the end of the whole connection. */
function summary(answer: RawAnswer | null): string {
  if (!answer) return "closed";
  if (answer.status < 400) return String(answer.status);
  return answer.body === "" ? String(answer.status) : `${answer.status} ${codeOf(answer)}`;
}

Deno.test("odd header case and spaces around values change nothing", async () => {
  const odd = (await hookLines()).map(([name, value], i): HeaderLine => {
    return [i % 2 === 0 ? name.toUpperCase() : name.toLowerCase(), `  \t ${value} \t `];
  });
  assertEquals(summary(await hook(odd)), "202");
});

Deno.test("a folded header is refused", async () => {
  const folded = (await hookLines()).map(([name, value]): HeaderLine => {
    return name === HEADERS.proof ? [name, `${value.slice(0, 40)}\r\n ${value.slice(40)}`] : [name, value];
  });
  const result = summary(await hook(folded));
  assert(/^(400|401|closed)/.test(result), result);
});

Deno.test("other encodings of a signed path are other paths", async (t) => {
  // Forms that fetch would change before it sends them; proof_test.ts of the proxy has the others.
  const forms = ["//hooks/agent", "/hooks/agent?", "/./hooks/agent", "/x/../hooks/agent"];
  await steps(t, forms, async (form) => {
    const result = summary(await hook(await hookLines(), form));
    assert(/^(400|401|404|405|closed)/.test(result), result);
  });
  await t.step("the path itself is accepted", async () => assertEquals(summary(await hook(await hookLines())), "202"));
});

Deno.test("a repeated credential, timestamp, nonce, hash or proof answers the code of its header", async (t) => {
  const twice: [name: string, code: string][] = [
    [HEADERS.authorization, "401 PROXY_AUTH_INVALID_SCHEME"],
    [HEADERS.timestamp, "401 PROXY_AUTH_INVALID_TIMESTAMP"],
    [HEADERS.nonce, "401 PROXY_AUTH_INVALID_NONCE"],
    [HEADERS.bodySha256, "401 PROXY_AUTH_INVALID_PROOF"],
    [HEADERS.proof, "401 PROXY_AUTH_INVALID_PROOF"],
    [HEADERS.access, "401 PROXY_AGENT_ACCESS_INVALID"],
    [HEADERS.recipient, "401 PROXY_AUTH_INVALID_PROOF"],
  ];
  for (const [name, code] of twice) {
    await t.step(`${name} on two lines, and joined by a comma`, async () => {
      const repeated = (await hookLines()).flatMap((line) => line[0] === name ? [line, line] : [line]);
      assertEquals(summary(await hook(repeated)), code);
      const joined = (await hookLines()).map(([own, value]): HeaderLine => {
        return [own, own === name ? `${value},${value}` : value];
      });
      assertEquals(summary(await hook(joined)), code);
    });
  }
  await t.step("two recipients, signed as received", async () => {
    const lines = await hookLines(`${b.identity.did}, ${b.identity.did}`);
    assertEquals(summary(await hook(lines)), "400 PROXY_HOOK_RECIPIENT_INVALID");
  });
  const bearer: HeaderLine = ["Authorization", `Bearer ${service.apiKey}`];
  const access: HeaderLine = [HEADERS.access, a.identity.accessToken];
  const claim = JSON.stringify({ agentDid: a.identity.did, aitJti: a.agent.currentJti });
  const id: HeaderLine = [HEADERS.serviceId, "01ARZ3NDEKTSV4RRFFQ69G5FAV"];
  const secret: HeaderLine = [HEADERS.serviceSecret, `svc_srv_${"x".repeat(43)}`];
  const registry: [name: string, request: string, lines: HeaderLine[], body: string | undefined, code: string][] = [
    ["API key", "GET /v1/me", [bearer, bearer], undefined, "401 API_KEY_INVALID"],
    ["access token", "POST /v1/agents/auth/validate", [access, access], claim, "401 AGENT_AUTH_VALIDATE_UNAUTHORIZED"],
    ["service secret", "GET /v1/crl", [id, secret, secret], undefined, "401 INTERNAL_SERVICE_UNAUTHORIZED"],
    [
      "bootstrap secret",
      "POST /v1/admin/bootstrap",
      [["x-bootstrap-secret", BOOTSTRAP_SECRET], ["x-bootstrap-secret", BOOTSTRAP_SECRET]],
      "{}",
      "401 ADMIN_BOOTSTRAP_UNAUTHORIZED",
    ],
  ];
  for (const [name, request, lines, body, code] of registry) {
    await t.step(`${name} at the registry`, async () => {
      const [method = "", target = ""] = request.split(" ");
      const text = rawRequest(method, target, [...usualLines(service.url, body), ...lines], body);
      assertEquals(summary(await rawExchange(service.url, text)), code);
    });
  }
});

Deno.test("a large Content-Length is 413 at once, before the body is sent or a check runs", async (t) => {
  const rows: [path: string, length: number, isTooLarge: boolean][] = [
    [REDEEM, 1024 ** 3, true],
    [REDEEM, 65_537, true],
    ["/v1/me/api-keys", 65_537, true],
    [HOOK, 1024 ** 3, true],
    [HOOK, 262_145, true],
    ["/pair/start", 65_537, true],
    [REDEEM, 65_536, false],
    [HOOK, 262_144, false],
  ];
  for (const [path, length, isTooLarge] of rows) {
    await t.step(`${path} with ${length} bytes ${isTooLarge ? "is refused" : "is read"}`, async () => {
      await using connection = await RawConnection.open(service.url);
      const lines = [...usualLines(service.url), ["Content-Length", String(length)] as const];
      await connection.send(rawRequest("POST", path, lines));
      if (!isTooLarge) await connection.send(" ".repeat(length));
      const result = summary(await connection.answer());
      assertEquals(result === "413 PAYLOAD_TOO_LARGE", isTooLarge, result);
    });
  }
});

Deno.test("a chunked body over the limit is cut with 413 before its end", async (t) => {
  const chunk = `4000\r\n${"x".repeat(0x4000)}\r\n`;
  await steps(t, [[REDEEM, 65_536], [HOOK, 262_144]] as const, async ([path, cap]) => {
    await using connection = await RawConnection.open(service.url);
    await connection.send(rawRequest("POST", path, [...usualLines(service.url), ["Transfer-Encoding", "chunked"]]));
    for (let sent = 0; sent <= cap; sent += 0x4000) await connection.send(chunk);
    assertEquals(summary(await connection.answer()), "413 PAYLOAD_TOO_LARGE");
  });
});

Deno.test("500 connections with half a head each delay no other client", async () => {
  const slow = await Promise.all(Array.from({ length: 500 }, () => RawConnection.open(service.url)));
  try {
    await Promise.all(slow.map((connection) => connection.send("POST /hooks/agent HTTP/1.1\r\nHost: svc\r\nX-S")));
    for (let i = 0; i < 20; i++) {
      await Promise.all(slow.slice(i * 25, (i + 1) * 25).map((connection) => connection.send("l")));
      assertEquals(summary(await hook(await hookLines())), "202");
    }
    for (const connection of slow) assertEquals(connection.received, "");
  } finally {
    for (const connection of slow) await connection[Symbol.asyncDispose]();
  }
});

Deno.test("a foreign Host or an absolute request line appears in no answer, DID or ticket", async () => {
  await using folder = await tempFolder();
  await using fresh = await startServerHere({ folder: folder.path });
  const evil: HeaderLine = ["Host", "evil.example"];
  const answers: (RawAnswer | null)[] = [];
  for (const prefix of ["", "http://evil.example"]) {
    const ask = async (
      method: string,
      target: string,
      lines: readonly HeaderLine[],
      body?: string,
      url = service.url,
    ) => {
      const all = lines.map((line) => line[0] === "Host" ? evil : line);
      const answer = await rawExchange(url, rawRequest(method, prefix + target, all, body));
      answers.push(answer);
      return answer;
    };
    assertEquals((await ask("GET", "/v1/metadata", usualLines(service.url)))?.status, 200);
    assertEquals((await ask("GET", "/nowhere", usualLines(service.url)))?.status, 404);
    const profile = JSON.stringify({ initiatorProfile: { agentName: "a", humanName: "A" } });
    const lines = await signedLines(service.url, a, { target: "/pair/start", body: profile });
    const started = await ask("POST", "/pair/start", lines, profile);
    assertEquals(started?.status, 200);
    assertEquals(parseTicket(JSON.parse(started?.body ?? "{}").ticket)?.origin, service.url);
    const secret: HeaderLine = ["x-bootstrap-secret", BOOTSTRAP_SECRET];
    const expected = prefix === "" ? 201 : 409;
    const made = await ask(
      "POST",
      "/v1/admin/bootstrap",
      [...usualLines(fresh.address, "{}"), secret],
      "{}",
      fresh.address,
    );
    assertEquals(made?.status, expected);
  }
  for (const answer of answers) assert(!answer?.text.includes("evil.example"), answer?.text);
});
