/**
 * Bodies that never end: the server answers, reads little more, and ends the connection. The test sends over TCP as
 * fast as the server reads.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { startServer, tempFolder, within } from "../support/process.ts";

const CHUNK = new TextEncoder().encode(`10000\r\n${"x".repeat(65_536)}\r\n`);
const BLOCK = new Uint8Array(65_536);
/** Well above the buffers of two sockets, and far below what the platform would read in the time. */
const MOST_BYTES = 64 * 1024 * 1024;
const END_MS = 30_000;

interface Sent {
  bytes: number;
  answer: string;
  isEnded: boolean;
}

/** Sends a head and then a body until the connection ends or enough bytes are sent. */
async function sendEndless(address: string, head: string, block: Uint8Array): Promise<Sent> {
  const { hostname, port } = new URL(address);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const sent: Sent = { bytes: 0, answer: "", isEnded: false };
  const reading = (async () => {
    const buffer = new Uint8Array(4096);
    for (let n = await connection.read(buffer); n !== null; n = await connection.read(buffer)) {
      sent.answer += new TextDecoder().decode(buffer.subarray(0, n));
    }
  })().catch(() => {});
  try {
    await connection.write(new TextEncoder().encode(head));
    while (sent.bytes < MOST_BYTES) sent.bytes += await connection.write(block);
  } catch {
    sent.isEnded = true;
    await reading;
  }
  return sent;
}

Deno.test("a body without end is answered, and its connection ends with little more read", async (t) => {
  await using folder = await tempFolder();
  await using server = await startServer({ folder: folder.path });
  const lengths = { declared: `Content-Length: ${2 ** 40}`, chunked: "Transfer-Encoding: chunked" };
  const heads: [name: string, line: string, status: number][] = [
    ["too large for its route", "POST /v1/invites/redeem", 413],
    ["without credentials", "POST /v1/me/api-keys", 401],
    ["without a route", "POST /nowhere", 404],
    ["with the wrong method", "PUT /v1/metadata", 405],
  ];
  for (const [name, line, status] of heads) {
    for (const [kind, length] of Object.entries(lengths)) {
      await t.step(`${name}, ${kind}`, async () => {
        const head = `${line} HTTP/1.1\r\nHost: svc\r\nContent-Type: application/json\r\n${length}\r\n\r\n`;
        const block = kind === "chunked" ? CHUNK : BLOCK;
        const { bytes, answer, isEnded } = await within(END_MS, name, sendEndless(server.address, head, block));
        assert(isEnded, `${bytes} bytes were read`);
        assertMatch(
          answer,
          name === "without credentials" && kind === "declared" ? /^HTTP\/1.1 4/ : new RegExp(`^HTTP/1.1 ${status} `),
        );
      });
    }
  }
  await t.step("the server continues", async () => {
    const answer = await fetch(`${server.address}/v1/metadata`);
    assertEquals(answer.status, 200);
    await answer.body?.cancel();
  });
});

Deno.test("a connection continues after a small body that was not read", async () => {
  await using folder = await tempFolder();
  await using server = await startServer({ folder: folder.path });
  const { hostname, port } = new URL(server.address);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const body = "x".repeat(1000);
  const request = `POST /nowhere HTTP/1.1\r\nHost: svc\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  let text = "";
  const buffer = new Uint8Array(8192);
  for (let i = 1; i <= 3; i++) {
    await connection.write(new TextEncoder().encode(request));
    while ((text.match(/HTTP\/1\.1 404 /g) ?? []).length < i) {
      const n = await within(10_000, "an answer", connection.read(buffer));
      assert(n !== null, "the connection was ended");
      text += new TextDecoder().decode(buffer.subarray(0, n));
    }
  }
});
