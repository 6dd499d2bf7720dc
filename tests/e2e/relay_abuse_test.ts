/**
 * The answer to a misbehaving connector (docs/protocol.md#relay-frames, D-70): frames that are too large, too many,
 * malformed or compressed. Other clients are not affected.
 */
import { assert, assertEquals } from "@std/assert";
import { CLOSE } from "../../shared/protocol/frames.ts";
import { eventually, messageTo, newId, type ServerProcess, Service, SOON_MS, within } from "../support/process.ts";
import {
  BareConnector,
  codeOf,
  CONNECT,
  OPCODE,
  RawConnection,
  rawRequest,
  RawSocket,
  UPGRADE,
  upgradeLines,
} from "../support/raw_http.ts";
import { steps } from "../support/steps.ts";

let relay: Service;
Deno.test.beforeAll(async () => {
  relay = await Service.open();
});
Deno.test.afterAll(() => relay?.[Symbol.asyncDispose]());

const MIB = 1_048_576;
/** What a peer receives when the connection ends without a close frame. */
const DROPPED = 1006;

/** A well-formed acknowledgement of exactly this number of bytes; unknown members are ignored. */
function ackOf(bytes: number): string {
  const frame = { v: 1, type: "heartbeat_ack", id: newId(), ts: new Date().toISOString(), ackId: newId(), pad: "" };
  return JSON.stringify({ ...frame, pad: "x".repeat(bytes - JSON.stringify(frame).length) });
}

/** Peak memory of the server's process, in MiB. */
async function peakMemory({ pid }: ServerProcess): Promise<number> {
  const [, kib = "0"] = (await Deno.readTextFile(`/proc/${pid}/status`)).match(/^VmHWM:\s+(\d+) kB$/m) ?? [];
  return Number(kib) / 1024;
}

Deno.test("a socket that sends many pongs is ended, and one that sends a few is not", async () => {
  const { a, b } = await relay.agents();
  await using few = await BareConnector.open(relay.url, a);
  await using many = await BareConnector.open(relay.url, b);
  for (let n = 0; n < 90; n++) await few.socket.send(OPCODE.pong, "");
  for (let n = 0; n < 1_000; n++) await many.socket.send(OPCODE.pong, "");
  assertEquals(await within(SOON_MS, "the socket is ended", many.socket.closed), DROPPED);
  await few.say({ type: "heartbeat" });
  await few.frame("heartbeat_ack");
});

Deno.test("a frame of 8 KiB is read, and one byte more closes with 1009 in bounded memory", async (t) => {
  const { b } = await relay.agents();
  await t.step("8 KiB", async () => {
    await using bare = await BareConnector.open(relay.url, b);
    await bare.socket.send(OPCODE.text, ackOf(8_192));
    await bare.say({ type: "heartbeat" });
    await bare.frame("heartbeat_ack");
  });
  await t.step("8 KiB and one byte", async () => {
    await using bare = await BareConnector.open(relay.url, b);
    await bare.socket.send(OPCODE.text, ackOf(8_193));
    assertEquals(await within(SOON_MS, "the socket is closed", bare.socket.closed), CLOSE.tooLarge);
  });
  // The runtime buffers a message of up to 64 MiB, in about three times its size, before the server can refuse it.
  for (const [size, bound] of [[16, 128], [60, 256], [64, 128]] as const) {
    await t.step({
      name: `${size} MiB`,
      ignore: Deno.build.os !== "linux",
      fn: async () => {
        await using bare = await BareConnector.open(relay.url, b);
        const before = await peakMemory(relay.server);
        await bare.socket.send(OPCODE.text, new Uint8Array(size * MIB).fill(120));
        const code = await within(SOON_MS, "the socket is closed", bare.socket.closed);
        assert(code === CLOSE.tooLarge || (size === 64 && code === DROPPED), `closed with ${code}`);
        const growth = await peakMemory(relay.server) - before;
        assert(growth <= bound, `the server grew by ${growth.toFixed(0)} MiB`);
      },
    });
  }
});

Deno.test("an invalid frame is tolerated twice and closes the socket at the third", async (t) => {
  const frame = { v: 1, id: newId(), ts: new Date().toISOString() };
  const { a, b } = await relay.agents();
  const deliver = {
    ...frame,
    type: "deliver",
    requestId: "forged-request",
    fromAgentDid: a.identity.did,
    toAgentDid: b.identity.did,
    contentType: "application/json",
    attempt: 1,
    payload: {},
  };
  const malformed: [name: string, opcode: number, payload: string | Uint8Array, codes: number[]][] = [
    ["binary", OPCODE.binary, new Uint8Array([1, 2, 3]), [1003, 1008]],
    // The runtime checks UTF-8 before the server receives the frame, and drops the connection.
    ["invalid UTF-8", OPCODE.text, new Uint8Array([0x7b, 0xff, 0xfe, 0x7d]), [1007, 1008, DROPPED]],
    ["no JSON", OPCODE.text, "{", [1008]],
    ["a JSON array", OPCODE.text, "[]", [1008]],
    ["a type of no frame", OPCODE.text, JSON.stringify({ ...frame, type: "constructor" }), [1008]],
    ["no id", OPCODE.text, JSON.stringify({ ...frame, id: undefined, type: "heartbeat" }), [1008]],
    ["a frame that only a proxy may send", OPCODE.text, JSON.stringify(deliver), [1008]],
  ];
  await steps(t, malformed, async ([, opcode, payload, codes]) => {
    await using bare = await BareConnector.open(relay.url, b);
    for (let i = 0; i < 2; i++) await bare.socket.send(opcode, payload);
    if (!codes.includes(1007)) {
      await bare.say({ type: "heartbeat" });
      await bare.frame("heartbeat_ack");
    }
    await bare.socket.send(opcode, payload);
    const code = await within(SOON_MS, "the socket is closed", bare.socket.closed);
    assert(codes.includes(code), `closed with ${code}`);
    assertEquals(bare.frames.filter(({ type }) => type === "deliver"), []);
  });
});

/** Frames sent after the server's close frame make the runtime drop the connection; the peer may receive that instead. */
function assertClosedForMisuse(code: number): void {
  assert([CLOSE.misuse, DROPPED].includes(code), `closed with ${code}`);
}

Deno.test("more frames than ten seconds allow close with 1008, and the owner's agents wait before they connect", async () => {
  // Of another owner, because the agents of the other tests connect too.
  const agent = await relay.agent("flood", await relay.person());
  await using bare = await BareConnector.open(relay.url, agent);
  for (let i = 0; i < 10; i++) await bare.say({ type: "heartbeat" });
  await bare.frame("heartbeat_ack", 10);
  let isOpen = true;
  while (isOpen) isOpen = await bare.socket.send(OPCODE.text, ackOf(200));
  assertClosedForMisuse(await within(SOON_MS, "the socket is closed", bare.socket.closed));
  const again = await RawSocket.open(relay.url, CONNECT, await upgradeLines(relay.url, agent));
  assert(!(again instanceof RawSocket));
  assertEquals([again.status, codeOf(again)], [429, "PROXY_RATE_LIMIT_EXCEEDED"]);
});

Deno.test("a flood from one socket ends that socket and disturbs no other", async () => {
  const { a, b } = await relay.agents();
  const connector = await relay.connect(b);
  await using bare = await BareConnector.open(relay.url, a);
  const flood = "x".repeat(100);
  let isOpen = true;
  for (let i = 0; isOpen && i < 10_000; i++) isOpen = await bare.socket.send(OPCODE.text, flood);
  const code = await within(SOON_MS, "the socket is closed", bare.socket.closed);
  assertClosedForMisuse(code);
  assertEquals((await a.client.sendMessage(messageTo(b))).delivered, true);
  await connector.close();
});

Deno.test("compression is not negotiated, and a compressed frame closes the socket", async () => {
  const { b } = await relay.agents();
  const offer = ["Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"] as const;
  await using bare = await BareConnector.open(relay.url, b, [offer]);
  assertEquals(bare.socket.opening.headers.get("sec-websocket-extensions"), undefined);
  const RSV1 = 0x40;
  await bare.socket.send(OPCODE.text | RSV1, new Uint8Array([0xaa, 0x56, 0x2a, 0x4b, 0x2c, 0x2a, 0x4e, 0x05]));
  const code = await within(SOON_MS, "the socket is closed", bare.socket.closed);
  assert([1002, CLOSE.misuse, DROPPED].includes(code), `closed with ${code}`);
});

Deno.test("an upgrade with a foreign Origin is refused or treated as any other", async () => {
  const { a, b } = await relay.agents();
  const lines = [...await upgradeLines(relay.url, b), ["Origin", "https://evil.example"] as const];
  const socket = await RawSocket.open(relay.url, CONNECT, lines);
  if (!(socket instanceof RawSocket)) return assertEquals(socket.status, 403);
  await using bare = new BareConnector(socket);
  const sending = a.client.sendMessage(messageTo(b));
  await bare.say({ type: "deliver_ack", ackId: (await bare.frame("deliver")).id, accepted: true });
  assertEquals((await sending).delivered, true);
});

Deno.test({
  name: "clients that leave before their socket opens take no file descriptor of the server",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const agent = await relay.agent("leaver", await relay.person());
    const openFiles = () => [...Deno.readDirSync(`/proc/${relay.server.pid}/fd`)].length;
    const before = openFiles();
    for (let n = 0; n < 200; n++) {
      await using connection = await RawConnection.open(relay.url);
      await connection.send(rawRequest("GET", CONNECT, [...await upgradeLines(relay.url, agent), ...UPGRADE]));
    }
    // Deno keeps a few, of clients that leave in the moment of the upgrade.
    await eventually(SOON_MS, "the connections are freed", () => openFiles() < before + 50 || undefined);
  },
});
