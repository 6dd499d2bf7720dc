/**
 * Memory under load: the memory that senders, readers and half-sent bodies can occupy is bounded, and other clients are
 * served meanwhile.
 */
import { assert, assertEquals } from "@std/assert";
import { ApiError } from "../support/agent_client.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { eventually, type LiveAgent, messageTo, type ServerProcess, Service, SOON_MS } from "../support/process.ts";
import {
  BareConnector,
  type HeaderLine,
  RawConnection,
  rawExchange,
  rawRequest,
  signedLines,
  usualLines,
} from "../support/raw_http.ts";

const KIB = 1024;
/** The target is 64, reached on an idle machine; next to other tests garbage collection runs later. */
const GROWTH_MIB = 96;

/** Memory of the server's process in MiB: current and peak. */
async function memory({ pid }: ServerProcess): Promise<{ now: number; peak: number }> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  const read = (name: string) => Number(status.match(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m"))?.[1] ?? 0) / KIB;
  return { now: read("VmRSS"), peak: read("VmHWM") };
}

/** Results of messages: `202`, or status and code. */
async function outcome(call: Promise<unknown>): Promise<string> {
  return await call.then(() => "202", (error) => {
    if (error instanceof ApiError) return `${error.status} ${error.code}`;
    throw error;
  });
}

/** A message whose body has exactly this number of bytes. */
function sized(to: LiveAgent, bytes: number): ReturnType<typeof messageTo> {
  return messageTo(to, "x".repeat(bytes - JSON.stringify({ message: "" }).length));
}

Deno.test({
  name: "200 concurrent large messages to a stalled reader keep the process small, and others continue",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    await using service = await Service.open({ RELAY_ACK_TIMEOUT_MS: "1000" });
    const [{ a, b }, { a: d, b: e }] = await Promise.all([service.agents(), service.agents()]);
    const connectors = [await service.connect(d), await service.connect(e)];
    // The measurement leaves out what 200 connections and a warm process need.
    await Promise.all(Array.from({ length: 200 }, () => d.client.sendMessage(messageTo(e))));
    await using slow = await BareConnector.open(service.url, b);
    const before = await memory(service.server);
    slow.socket.stopReading();
    const sending = Promise.all(Array.from({ length: 200 }, () => outcome(a.client.sendMessage(sized(b, 256 * KIB)))));
    for (let i = 0; i < 40; i++) {
      const [from, to] = i % 2 ? [d, e] : [e, d];
      assertEquals((await from.client.sendMessage(messageTo(to))).delivered, true);
    }
    const outcomes = new Set(await sending);
    const growth = (await memory(service.server)).peak - before.peak;
    console.log(`200 large messages at once: the process grew by ${growth.toFixed(0)} MiB`);
    assert(growth <= GROWTH_MIB, `the process grew by ${growth.toFixed(0)} MiB`);
    const refusals = ["503 PROXY_RELAY_UNAVAILABLE", "503 SERVICE_UNAVAILABLE", "502 PROXY_RELAY_DELIVERY_FAILED"];
    assertEquals([...outcomes].filter((result) => !refusals.includes(result)), []);
    for (const connector of connectors) await connector.close();
  },
});

Deno.test("half-sent bodies of two addresses delay neither small messages nor a large one from a third", async () => {
  await using service = await Service.open({ TRUSTED_PROXIES: "127.0.0.1" });
  const { a, b } = await service.agents();
  const connector = await service.connect(b);
  const half = "x".repeat(255 * KIB);
  const from = (address: string): HeaderLine => ["X-Forwarded-For", address];
  const slowSenders: RawConnection[] = [];
  try {
    for (let i = 0; i < 60; i++) {
      const slowSender = await RawConnection.open(service.url);
      slowSenders.push(slowSender);
      const lines = [
        ...usualLines(service.url),
        ["Content-Length", String(256 * KIB)],
        from(`192.0.2.${i % 2}`),
      ] as const;
      await slowSender.send(rawRequest("POST", "/hooks/agent", lines, half));
    }
    const send = async (bytes: number, address: string) => {
      const { payload: body, recipientDid: recipient } = sized(b, bytes);
      const lines = [...await signedLines(service.url, a, { body, recipient }), from(address)];
      return (await rawExchange(service.url, rawRequest("POST", "/hooks/agent", lines, body)))?.status;
    };
    for (let i = 0; i < 5; i++) assertEquals(await send(1000, `192.0.2.${i % 2}`), 202, "small");
    assertEquals(await send(200 * KIB, "192.0.2.7"), 202, "large");
    // While others wait a body has one second to arrive, not ten.
    assertEquals((await slowSenders[0]?.answer(5_000))?.status, 408);
  } finally {
    for (const slowSender of slowSenders) await slowSender[Symbol.asyncDispose]();
  }
  await connector.close();
});

Deno.test({
  name: "bodies that 40 clients send in chunks of one byte keep the process small",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    await using service = await Service.open();
    const before = await memory(service.server), clients: RawConnection[] = [];
    for (let n = 0; n < 40; n++) {
      const client = await RawConnection.open(service.url);
      clients.push(client);
      const lines = [...usualLines(service.url), ["Transfer-Encoding", "chunked"]] as const;
      await client.send(rawRequest("POST", "/v1/invites/redeem", lines) + "1\r\nx\r\n".repeat(1_000));
    }
    for (const client of clients) assertEquals((await client.answer())?.status, 408);
    for (const client of clients) await client[Symbol.asyncDispose]();
    const growth = (await memory(service.server)).peak - before.peak;
    console.log(`40,000 chunks of one byte: the process grew by ${growth.toFixed(0)} MiB`);
    assert(growth <= 4 * GROWTH_MIB, `the process grew by ${growth.toFixed(0)} MiB`);
  },
});

/** A frame of HTTP/2. */
function http2Frame(type: number, flags: number, stream: number, payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(9 + payload.length), view = new DataView(bytes.buffer);
  view.setUint32(0, payload.length << 8 | type);
  bytes[4] = flags;
  view.setUint32(5, stream);
  bytes.set(payload, 9);
  return bytes;
}

/** Names and values as texts of HTTP/2, without compression. */
function http2Headers(headers: Record<string, string>): Uint8Array {
  const texts = Object.entries(headers).map(([name, value]) => {
    const sized = (text: string) => String.fromCharCode(text.length) + text;
    return `\0${sized(name)}${sized(value)}`;
  });
  return utf8Bytes(texts.join(""));
}

Deno.test({
  name: "clients of HTTP/2 that read none of 200 pages on each of 40 connections keep the process small",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    await using service = await Service.open();
    const { host } = new URL(service.url);
    const get = http2Headers({ ":method": "GET", ":scheme": "http", ":path": "/docs/agents", ":authority": host });
    const streams = Array.from({ length: 200 }, (_, n) => http2Frame(1, 5, 2 * n + 1, get));
    // SETTINGS_INITIAL_WINDOW_SIZE is 0, so no byte of an answer may be sent.
    const start = [
      utf8Bytes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
      http2Frame(4, 0, 0, new Uint8Array([0, 4, 0, 0, 0, 0])),
    ];
    const request = new Uint8Array(await new Blob([...start, ...streams] as BlobPart[]).arrayBuffer());
    await fetch(`${service.url}/docs/agents`).then((answer) => answer.body?.cancel());
    const before = await memory(service.server);
    const clients: RawConnection[] = [];
    for (let n = 0; n < 40; n++) {
      const client = await RawConnection.open(service.url);
      clients.push(client);
      await client.send(request);
    }
    // Each connection has had an answer to its last request, though not its body.
    await eventually(SOON_MS, "the pages are answered", () => {
      return clients.every(({ received }) => received.length > 200 * 20) || undefined;
    });
    const growth = (await memory(service.server)).peak - before.peak;
    console.log(`8,000 unread pages: the process grew by ${growth.toFixed(0)} MiB`);
    for (const client of clients) await client[Symbol.asyncDispose]();
    assert(growth <= 2 * GROWTH_MIB, `the process grew by ${growth.toFixed(0)} MiB`);
  },
});
