/**
 * A single caller cannot slow the service down for others: one address sends the worst input of each kind while another
 * connection polls `/health`. A row fails when the slowest poll takes over 20 times the idle median and over 1 s, so
 * that the load of the machine alone does not decide. docs/security.md, "What one person can cost", has the bounds.
 */
import { assert, assertEquals } from "@std/assert";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { signedHeaders } from "../../cli/link/signed_headers.ts";
import { HealthPoller, median } from "../support/health_poller.ts";
import { deps, eventually, type LiveAgent, Service } from "../support/process.ts";
import { BareConnector, OPCODE, RawConnection, rawRequest, usualLines } from "../support/raw_http.ts";

const KIB = 1024;
const DRIVE_MS = 1_200;
const PARALLEL = 4;
const MAX_RATIO = 20;
const MAX_MS = 1_000;

interface Cast {
  service: Service;
  a: LiveAgent;
  b: LiveAgent;
}

/** Sends one worst input; resolves when it is answered or refused. */
type Drive = (cast: Cast, n: number) => Promise<void>;

async function answered(request: Promise<Response>): Promise<void> {
  try {
    await (await request).body?.cancel();
  } catch (error) {
    // The server closes a connection whose header section or body is too large.
    if (!(error instanceof TypeError)) throw error;
  }
}

interface Signed {
  method?: string;
  target?: string;
  body?: string;
  headers?: Record<string, string>;
}

/** A request that the agent signed. */
function signed({ target = "/hooks/agent", method = "POST", body, headers = {} }: Signed): Drive {
  return async ({ service, a, b }) => {
    const parts = { method, url: service.url, target, recipient: b.identity.did };
    const proof = await signedHeaders(deps, a.identity, { ...parts, ...body === undefined ? {} : { body } });
    await answered(fetch(service.url + target, {
      method,
      headers: { "Content-Type": "application/json", ...proof, [HEADERS.access]: a.identity.accessToken, ...headers },
      ...(body === undefined ? {} : { body }),
    }));
  };
}

/** One request that the agent signed once. The first copy is delivered, the others are replays. */
function replayed(): Drive {
  let headers: Promise<Record<string, string>> | undefined;
  return async ({ service, a, b }) => {
    headers ??= signedHeaders(deps, a.identity, {
      method: "POST",
      url: service.url,
      target: "/hooks/agent",
      recipient: b.identity.did,
      body: "{}",
    });
    const proof = { ...await headers, [HEADERS.access]: a.identity.accessToken, "Content-Type": "application/json" };
    await answered(fetch(`${service.url}/hooks/agent`, { method: "POST", headers: proof, body: "{}" }));
  };
}

function withKey(target: string, method = "GET", body?: string): Drive {
  return ({ service }) =>
    answered(fetch(service.url + target, {
      method,
      headers: { Authorization: `Bearer ${service.apiKey}` },
      ...(body === undefined ? {} : { body }),
    }));
}

function open(target: string, headers: Record<string, string> = {}, body?: string): Drive {
  return ({ service }) =>
    answered(
      fetch(service.url + target, { headers, ...(body === undefined ? {} : { method: "POST", body }) }),
    );
}

/** Bytes on a connection of their own. */
function raw(request: (url: string) => string | Uint8Array): Drive {
  return async ({ service }) => {
    await using connection = await RawConnection.open(service.url);
    await connection.send(request(service.url));
    await connection.answer(5_000).catch(() => null);
  };
}

/** Sends frames on a relay socket of the recipient until it is closed, then opens a new socket. */
function frames(text: string): Drive {
  return async ({ service, b }) => {
    // After such frames the agents of the owner wait before they connect, also in the next try.
    await using bare = await eventually(
      60_000,
      "the agent may connect",
      () => BareConnector.open(service.url, b).catch(() => undefined),
    );
    let isOpen = true;
    const end = performance.now() + DRIVE_MS;
    while (isOpen && performance.now() < end) {
      for (let i = 0; isOpen && i < 5; i++) isOpen = await bare.socket.send(OPCODE.text, text);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
}

const heartbeat = (pad: string) =>
  `{"v":1,"type":"heartbeat","id":"01KHYQ5H00AAAAAAAAAAAAAAAA","ts":"2026-02-21T00:00:00.000Z","pad":${pad}}`;
const nested = (bytes: number) => "[".repeat(bytes / 2) + "]".repeat(bytes / 2);
const manyKeys = (bytes: number) => `{${Array.from({ length: bytes / 12 }, (_, i) => `"${i}":{}`).join(",")}}`;
const base64 = (text: string) => btoa(text).replaceAll("=", "").replaceAll("+", "-").replaceAll("/", "_");
const oddToken = (payload: string) => {
  const head = `${base64('{"alg":"EdDSA","typ":"AIT","kid":"x"}')}.`;
  return `${head}${base64(payload)}`.slice(0, 8_100) + `.${"A".repeat(86)}`;
};
const profile = { agentName: "a", humanName: "A" };

/** The input, and the number of concurrent connections. */
const ROWS: readonly [name: string, drive: Drive, parallel?: number][] = [
  ["Prefer of 64 KB with escaped quotes", signed({ body: "{}", headers: { Prefer: '\\"'.repeat(32_000) } })],
  ["Prefer of 64 KB with open quotes", signed({ body: "{}", headers: { Prefer: '"x'.repeat(32_000) } })],
  ["message of 240 KB of combining marks", signed({ body: JSON.stringify({ message: "\u0301".repeat(120_000) }) })],
  ["message of 60,000 short lines of marks", signed({ body: JSON.stringify({ message: "\u0301\n".repeat(60_000) }) })],
  [
    "message of lines of 128 marks",
    signed({ body: JSON.stringify({ message: `${"\u0323\u0301".repeat(64)}\n`.repeat(900) }) }),
  ],
  ["message of 250 KB of nested lists", signed({ body: `{"message":${nested(250_000)}}` })],
  ["message of 250 KB of keys", signed({ body: manyKeys(250_000) })],
  [
    "Content-Type of 64 KB",
    signed({ body: "{}", headers: { "Content-Type": "application/json;".padEnd(64_000, ";") } }),
  ],
  [
    "signed context of 80 headers of 600 bytes",
    signed({
      target: `/hooks/agent?ctx=${"A".repeat(43)}`,
      body: "{}",
      headers: Object.fromEntries(Array.from({ length: 80 }, (_, i) => [`x-svc-h${i}`, "y".repeat(600)])),
    }),
  ],
  ["signed context named 680 times", signed({ target: `/hooks/agent?${"ctx=x&".repeat(680)}`, body: "{}" })],
  ["identity token of 8 KiB of lists", open("/pair/peers", { Authorization: `Svc ${oddToken(nested(6_000))}` })],
  ["identity token of 8 KiB of keys", open("/pair/peers", { Authorization: `Svc ${oddToken(manyKeys(6_000))}` })],
  ["Authorization of 60 KB of spaces", open("/pair/peers", { Authorization: `Svc${" x".repeat(30_000)}` })],
  [
    "ticket of 64 KiB",
    signed({
      target: "/pair/confirm",
      body: JSON.stringify({ ticket: `x${" `".repeat(32_000)}x`, responderProfile: profile }),
    }),
  ],
  ["path of 10,000 characters", open(`/${"a/".repeat(5_000)}`)],
  ["path of 10,000 encoded characters", open(`/v1/${"%61".repeat(3_300)}`)],
  [
    "JSON body with 15,000 problems",
    withKey("/v1/admin/internal-services", "POST", JSON.stringify({ name: "x", scopes: Array(15_000).fill("x") })),
  ],
  ["query of 5,000 parameters", withKey(`/v1/agents?${Array.from({ length: 5_000 }, (_, i) => `k${i}=1`).join("&")}`)],
  ["query with one name 10,000 times", withKey(`/v1/agents?${"limit&".repeat(10_000)}`)],
  ["JSON body of 64 KiB, nested", open("/v1/invites/redeem", {}, `{"code":${nested(64_000)}}`)],
  [
    "90 headers of 600 bytes",
    raw((url) => {
      const many = Array.from({ length: 90 }, (_, i) => [`x-${i}`, "y".repeat(600)] as const);
      return rawRequest("GET", "/v1/crl", [...usualLines(url), ...many]);
    }),
  ],
  ["X-Forwarded-For of 60 KB", open("/v1/crl", { "X-Forwarded-For": "1.2.3.4,".repeat(7_500) })],
  ["If-None-Match of 60 KB", open("/.well-known/svc-keys.json", { "If-None-Match": 'W/"x",'.repeat(10_000) })],
  [
    "body in chunks of one byte",
    raw((url) => {
      const chunks = "1\r\nx\r\n".repeat(6_000);
      return rawRequest("POST", "/v1/invites/redeem", [...usualLines(url), ["Transfer-Encoding", "chunked"]]) + chunks +
        "0\r\n\r\n";
    }),
    2,
  ],
  ["walks through the agent list", withKey("/v1/agents?limit=100&status=revoked&framework=none")],
  ["walks through the peers list", signed({ method: "GET", target: "/pair/peers" })],
  ["removal of pairs that do not exist", ({ service, a, b }, n) =>
    signed({
      target: "/pair/remove",
      body: JSON.stringify({ peerAgentDid: b.identity.did.replace(/.{4}$/, String(1000 + n % 9000)) }),
    })({ service, a, b }, n)],
  ["frames of 1 MiB of nested JSON from four sockets", frames(heartbeat(nested(1_000 * KIB)))],
  ["frames of 1 MiB of keys from four sockets", frames(heartbeat(manyKeys(900 * KIB)))],
  ["frames of 8 KiB of nested JSON from four sockets", frames(heartbeat(nested(8_000)))],
  // The last row, because the limiter of bad proofs refuses the agent afterwards.
  ["one signed request on 64 connections", replayed(), 64],
];

/** Runs a row on some connections until its time is over; returns the number of answered inputs. */
async function driven(cast: Cast, drive: Drive, parallel: number): Promise<number> {
  const end = performance.now() + DRIVE_MS;
  let count = 0;
  const one = async (i: number) => {
    while (performance.now() < end) {
      await drive(cast, count++ * parallel + i);
    }
  };
  await Promise.all(Array.from({ length: parallel }, (_, i) => one(i)));
  return count;
}

function isSlow(slowest: number, idle: number): boolean {
  return slowest > MAX_RATIO * idle && slowest > MAX_MS;
}

Deno.test("one caller with the worst input leaves health responsive", async (t) => {
  await using service = await Service.open({ API_KEY_REQUESTS_PER_MINUTE: "100000" });
  const cast: Cast = { service, ...await service.agents() };
  using poller = new HealthPoller(service.url);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const idle = median(await poller.take());
  console.log(`idle median ${idle.toFixed(1)} ms`);
  for (const [name, drive, parallel = PARALLEL] of ROWS) {
    await t.step(name, async () => {
      // Wait until the previous row's work is done.
      await fetch(`${service.url}/health`).then((answer) => answer.body?.cancel());
      await poller.take();
      // A busy machine delays single answers; an input that blocks the server does so each time.
      let fewest = Infinity;
      for (let tries = 0; tries < 3 && isSlow(fewest, idle); tries++) {
        const count = await driven(cast, drive, parallel);
        const slowest = Math.max(...await poller.take());
        console.log(`${name}: slowest ${slowest.toFixed(0)} ms, idle ${idle.toFixed(1)} ms, ${count} inputs`);
        assert(count > 0);
        fewest = Math.min(fewest, slowest);
      }
      assert(
        !isSlow(fewest, idle),
        `the slowest health answer took ${fewest.toFixed(0)} ms, the idle median is ${idle.toFixed(1)} ms`,
      );
    });
  }
  assertEquals((await fetch(`${service.url}/health`)).status, 200);
});
