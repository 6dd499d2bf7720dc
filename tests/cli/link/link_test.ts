/**
 * The link to a proxy that becomes silent, half-open as after a pulled cable (D-70), or that breaks off the handshake
 * at any step. Real sockets, and the test's clock.
 */
import { createHash } from "node:crypto";
import net from "node:net";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { CLOSE } from "../../../shared/protocol/frames.ts";
import { ulidSource } from "../../../shared/protocol/ids.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { UnreachableError } from "../../../shared/client/errors.ts";
import { type Ack, type LinkEvents, openLink, RefusedError } from "../../../cli/link/link.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { until } from "../../support/until.ts";
import FRAMES from "../../vectors/frames.json" with { type: "json" };

async function agent() {
  const { privateKey } = await keyPairFromSeed(new Uint8Array(32).fill(7));
  return {
    did: "did:svc:localhost:agent:01KHYQ5H00AAAAAAAAAAAAAAAA",
    ait: "a.b.c",
    privateKey,
    accessToken: "svc_agt_x",
  };
}

/** A link to a proxy that answers heartbeats while `answers` is true. `deliver`: what takes its messages. */
async function openAtProxy(answers = true, deliver: LinkEvents["deliver"] = () => Promise.resolve({ accepted: true })) {
  const clock = new ManualClock(), { bytes } = seededRandom(1);
  const state = {
    answers,
    beats: 0,
    answered: 0,
    acks: [] as Ack[],
    ends: [] as [number, string][],
    server: null as WebSocket | null,
  };
  const proxy = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const { socket, response } = Deno.upgradeWebSocket(request, { idleTimeout: 0 });
    state.server = socket;
    socket.onmessage = ({ data }) => {
      const { id, type, accepted, reason } = JSON.parse(data);
      if (type === "deliver_ack") state.acks.push({ accepted, reason });
      if (type === "heartbeat") state.beats++;
      if (type === "heartbeat" && state.answers) {
        socket.send(JSON.stringify({ v: 1, type: "heartbeat_ack", id, ts: toIso(clock.now()), ackId: id }));
      }
    };
    return response;
  });
  const newId = ulidSource(() => clock.now(), bytes);
  const link = await openLink(
    { clock, random: { bytes }, newId },
    `http://127.0.0.1:${proxy.addr.port}`,
    await agent(),
    {
      deliver,
      heartbeat: () => void state.answered++,
      closed: (code, reason) => void state.ends.push([code, reason]),
    },
  );
  return Object.assign(state, { clock, link, [Symbol.asyncDispose]: () => proxy[Symbol.asyncDispose]() });
}

const SILENT: [number, string] = [CLOSE.silent, "no answer within 10 s"];

Deno.test("a link whose first heartbeat is not answered ends as silent after 10 s and reports it once", async () => {
  await using proxy = await openAtProxy(false);
  await proxy.clock.advance(9_999);
  assertEquals(proxy.ends, []);
  await proxy.clock.advance(1);
  assertEquals(proxy.ends, [SILENT]);
  await until(() => proxy.server?.readyState === WebSocket.CLOSED);
  assertEquals([proxy.ends.length, proxy.clock.waiting], [1, 0]);
});

Deno.test("a pulled cable is known 26 s later, and 10 s after a request that did not get through", async () => {
  for (const isTold of [false, true]) {
    await using proxy = await openAtProxy();
    const { clock } = proxy;
    await until(() => proxy.answered === 1);
    // A link that works has one heartbeat of its own in 16 s, or in 30 s when the proxy sends one between.
    for (let beats = 2; beats <= 5; beats++) {
      await clock.advance(16_000);
      await until(() => proxy.answered === beats);
    }
    proxy.answers = false;
    if (isTold) {
      proxy.link.check();
      proxy.link.check();
    } else await clock.advance(16_000);
    await until(() => proxy.beats === 6);
    await clock.advance(9_999);
    assertEquals(proxy.ends, []);
    await clock.advance(1);
    assertEquals([proxy.ends, proxy.beats], [[SILENT], 6]);
  }
});

Deno.test("messages that are being checked take at most 64 MiB, and those above are refused until others have ended", async () => {
  const gate = Promise.withResolvers<Ack>();
  let taken = 0;
  await using proxy = await openAtProxy(true, () => {
    taken++;
    return gate.promise;
  });
  const message = FRAMES.valid[0]?.text ?? "";
  const text = JSON.stringify({ ...JSON.parse(message), payload: { message: "x".repeat(1_000_000) } });
  for (let n = 0; n < 70; n++) proxy.server?.send(text);
  await until(() => taken + proxy.acks.length === 70);
  assertEquals([taken, proxy.acks.length, proxy.acks[0]], [67, 3, { accepted: false, reason: "store_failed" }]);
  gate.resolve({ accepted: true });
  await until(() => proxy.acks.length === 70);
  proxy.server?.send(text);
  await until(() => proxy.acks.length === 71);
  assertEquals(proxy.acks.filter(({ accepted }) => accepted).length, 68);
});

function openAt(url: string, clock = new ManualClock()) {
  const random = seededRandom(1);
  const newId = ulidSource(() => clock.now(), random.bytes);
  const events = { deliver: () => Promise.resolve({ accepted: true }), closed: () => {} };
  return agent().then((identity) => openLink({ clock, random, newId }, url, identity, events));
}

Deno.test("a refused upgrade and an address without a listener are reported differently", async () => {
  const body = { error: { code: "PROXY_AUTH_REVOKED", message: "The agent is revoked" } };
  const proxy = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => {
    return Response.json(body, { status: 401, headers: { "Retry-After": "7" } });
  });
  const url = `http://127.0.0.1:${proxy.addr.port}`;
  const error = await assertRejects(() => openAt(url), RefusedError);
  assertEquals([error.status, error.code, error.retryAfter], [401, "PROXY_AUTH_REVOKED", 7]);
  await proxy.shutdown();
  await assertRejects(() => openAt(url), UnreachableError);
});

const REFUSAL = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 100\r\n\r\n{";
const UPGRADE = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";

/** What a proxy answers before it resets the connection; `null`: it resets before the request. */
const HANDSHAKES: Readonly<Record<string, string | null>> = {
  "before the request": null,
  "after the request": "",
  "in the status line": "HTTP/1.1 10",
  "in the header fields": UPGRADE.slice(0, -10),
  "after a wrong key": `${UPGRADE}Sec-WebSocket-Accept: x\r\n\r\n`,
  "in the body of a refusal": REFUSAL,
};

/** A server that acts on each connection, before or after its first bytes. */
async function rawServer(serve: (socket: net.Socket, first?: Uint8Array) => void, isEarly = false) {
  const server = net.createServer((socket) => {
    socket.on("error", () => {});
    if (isEarly) serve(socket);
    else socket.once("data", (first) => serve(socket, first));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as net.AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

Deno.test("opening a link fails, and leaves no timer, when the connection is reset at a step of the handshake", async (t) => {
  for (const [step, answer] of Object.entries(HANDSHAKES)) {
    await t.step(step, async () => {
      const clock = new ManualClock();
      const reset = (socket: net.Socket) => void socket.write(answer ?? "", () => socket.resetAndDestroy());
      await using proxy = await rawServer(answer === null ? (socket) => void socket.resetAndDestroy() : reset, !answer);
      const error = await assertRejects(() => openAt(proxy.url, clock));
      assert(error instanceof UnreachableError || error instanceof RefusedError, String(error));
      assertEquals(clock.waiting, 0);
    });
  }
});

Deno.test("a refusal keeps its status when its body is cut off", async () => {
  await using proxy = await rawServer((socket) => void socket.end(REFUSAL));
  const error = await assertRejects(() => openAt(proxy.url), RefusedError);
  assertEquals([error.status, error.code], [401, null]);
});

Deno.test("opening a link ends after 10 s when the proxy does not answer, or does not end its refusal", async (t) => {
  for (const [answer, expected] of [["", UnreachableError], [REFUSAL, RefusedError]] as const) {
    await t.step(expected.name, async () => {
      const clock = new ManualClock();
      const sockets: net.Socket[] = [];
      await using proxy = await rawServer((socket) => {
        sockets.push(socket);
        socket.write(answer);
      });
      const failed = assertRejects(() => openAt(proxy.url, clock));
      await until(() => sockets.length === 1);
      // Time for the answer to arrive; if it does not, the result is the same kind of failure.
      for (let i = 0; i < 50; i++) await flushTasks();
      await clock.advance(10_000);
      const error = await failed;
      assert(error instanceof UnreachableError || error instanceof expected, String(error));
      await until(() => sockets.every((socket) => socket.destroyed || socket.readableEnded));
      for (const socket of sockets) socket.destroy();
    });
  }
});

Deno.test("a proxy that sends heartbeats without an end, and reads no answer, loses the link", async () => {
  const frame = new TextEncoder().encode(FRAMES.valid.find(({ text }) => text.includes('"heartbeat"'))?.text);
  const chunk = new Uint8Array(1_000 * (frame.length + 4));
  let length = 0;
  for (let n = 0; n < 1_000; n++, length += frame.length) {
    const head = frame.length < 126 ? [0x81, frame.length] : [0x81, 126, frame.length >> 8, frame.length & 0xff];
    chunk.set(head, length);
    length += head.length;
    chunk.set(frame, length);
  }
  await using proxy = await rawServer((socket, request) => {
    const key = /sec-websocket-key: (.*)\r\n/i.exec(String(request))?.[1];
    const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    end.defer(() => void socket.destroy());
    socket.pause();
    socket.write(`${UPGRADE}Sec-WebSocket-Accept: ${accept}\r\n\r\n`);
    for (let n = 0; n < 400; n++) socket.write(chunk.subarray(0, length));
  });
  const ends: number[] = [];
  using end = new DisposableStack();
  const clock = new ManualClock(), random = seededRandom(1), newId = ulidSource(() => clock.now(), random.bytes);
  const events = { deliver: () => Promise.resolve({ accepted: true }), closed: (code: number) => void ends.push(code) };
  await openLink({ clock, random, newId }, proxy.url, await agent(), events);
  await until(() => ends.length === 1);
  assertEquals(ends, [1006]);
});
