/** The link to a proxy that goes silent: half-open, as after a pulled cable (K12, D-70). A real socket, a clock of the test. */
import { assertEquals, assertRejects } from "@std/assert";
import { CLOSE } from "../../../shared/protocol/frames.ts";
import { ulidSource } from "../../../shared/protocol/ids.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { UnreachableError } from "../../../cli/errors.ts";
import { openLink, RefusedError } from "../../../cli/connector/link.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { until } from "./bench.ts";

async function agent() {
  const { privateKey } = await keyPairFromSeed(new Uint8Array(32).fill(7));
  return {
    did: "did:svc:localhost:agent:01KHYQ5H00AAAAAAAAAAAAAAAA",
    ait: "a.b.c",
    privateKey,
    accessToken: "svc_agt_x",
  };
}

Deno.test("a link on which nothing is heard for a minute ends as silent, and says so once", async () => {
  const clock = new ManualClock();
  const random = seededRandom(1);
  const frames: string[] = [];
  let server: WebSocket | null = null;
  await using proxy = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const { socket, response } = Deno.upgradeWebSocket(request, { idleTimeout: 0 });
    socket.onmessage = ({ data }) => void frames.push(JSON.parse(data).type);
    server = socket;
    return response;
  });
  const ends: [number, string][] = [];
  const beats: number[] = [];
  const newId = ulidSource(() => clock.now(), random.bytes);
  await openLink({ clock, random, newId }, `http://127.0.0.1:${proxy.addr.port}`, await agent(), {
    deliver: () => Promise.resolve({ accepted: true }),
    heartbeat: (ms) => void beats.push(ms),
    closed: (code, reason) => void ends.push([code, reason]),
  });
  await until("its heartbeat is there", () => frames.length === 1);
  await clock.advance(59_999);
  assertEquals([ends, frames[0]], [[], "heartbeat"]);
  await clock.advance(1);
  assertEquals([ends, beats], [[[CLOSE.silent, "silent for 60 s"]], []]);
  await until("the other side sees the end", () => server?.readyState === WebSocket.CLOSED);
  assertEquals([ends.length, clock.waiting], [1, 0]);
});

Deno.test("a refused upgrade and an address without anybody are told apart", async () => {
  const clock = new ManualClock();
  const random = seededRandom(1);
  const newId = ulidSource(() => clock.now(), random.bytes);
  const events = { deliver: () => Promise.resolve({ accepted: true }), closed: () => {} };
  const body = { error: { code: "PROXY_AUTH_REVOKED", message: "The agent is revoked" } };
  const proxy = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => {
    return Response.json(body, { status: 401, headers: { "Retry-After": "7" } });
  });
  const url = `http://127.0.0.1:${proxy.addr.port}`;
  const error = await assertRejects(
    async () => openLink({ clock, random, newId }, url, await agent(), events),
    RefusedError,
  );
  assertEquals([error.status, error.code, error.retryAfter], [401, "PROXY_AUTH_REVOKED", 7]);
  await proxy.shutdown();
  await assertRejects(async () => openLink({ clock, random, newId }, url, await agent(), events), UnreachableError);
});
