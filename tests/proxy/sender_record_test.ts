/** The packed record of a sender and its sealed parts: vectors, round trips, hostile bytes, and the worst case. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { BEGUN_MAX } from "../../proxy/message/delivery.ts";
import {
  type BegunDelivery,
  MalformedRecord,
  newSender,
  NONCE_BYTES,
  type NonceName,
  nonceName,
  noncesIn,
  packPart,
  packSender,
  partEnd,
  putNonce,
  senderKeptMs,
  type SenderRecord,
  unpackPart,
  unpackSender,
} from "../../proxy/schema/sender_record.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { hexDigest } from "../../shared/server/crypto.ts";
import type { NonceRecord } from "../../shared/server/nonces.ts";
import { EXACT_WINDOW_REQUESTS_MAX, Window, type WindowRecord } from "../../shared/server/rate_limit.ts";

const NOW = Date.UTC(2026, 1, 21);
const SECOND = NOW / 1000;
const NONCE: NonceRecord = { timestamp: SECOND, expiresAt: NOW + 301_000 };
const BEGUN: BegunDelivery = {
  requestId: "request-1",
  sender: "did:svc:a.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA",
  recipient: "did:svc:a.test:agent:01KHYQ5H00BBBBBBBBBBBBBBBB",
  startedAt: NOW + 7,
  instance: "01KHYQ5H00CCCCCCCCCCCCCCCC",
};

/** Packed nonces named 0, 1, 2 and so on. */
function nonces(count: number, { timestamp, expiresAt }: NonceRecord = NONCE): Uint8Array {
  const bytes = new Uint8Array(count * NONCE_BYTES), view = new DataView(bytes.buffer);
  for (let i = 0; i < count; i++) putNonce(view, i * NONCE_BYTES, { name: nameOf(i), timestamp, expiresAt });
  return bytes;
}

function nameOf(i: number | string): NonceName {
  return nonceName(hexDigest(String(i)));
}

/** A record whose window is a list. */
type Values = Omit<SenderRecord, "window"> & { window: WindowRecord };

function unpacked(value: unknown): Values {
  const record = unpackSender(value, "s");
  return { ...record, window: record.window.record() };
}

/** Returns the stored form of a record. */
function packed(record: Partial<Values>): Uint8Array {
  return packSender({ ...newSender(NOW), ...record, window: new Window(record.window) });
}

Deno.test("a packed record has the bytes of the layout", () => {
  const name = nonceName(hexDigest("nonce")), own = new Uint8Array(NONCE_BYTES);
  putNonce(new DataView(own.buffer), 0, { name, timestamp: SECOND, expiresAt: NOW + 301_500 });
  const record: Values = {
    since: NOW,
    sealed: 3,
    nonces: own,
    window: [[NOW, 2], [NOW + 1000, 1]],
    begun: [{ ...BEGUN, requestId: "abcdefgh", sender: "s", recipient: "r", instance: "i" }],
  };
  const wanted = [
    "01" + "4279c7d7efc00000" + "00000003" + "0013" + "000d",
    "78377b525757b494427f8901" + "6998f580" + "0001f4",
    "4279c7d7efc00000" + "00" + "02" + "e807" + "01",
    "4279c7d7efc07000" + "08" + "6162636465666768" + "0172" + "0169",
  ].join("");
  assertEquals(packed(record).toHex(), wanted);
  assertEquals(unpacked(Uint8Array.fromHex(wanted)), record);
});

const ascii = fc.string({ unit: "grapheme-ascii", maxLength: 160 });
const begun = fc.record({
  requestId: ascii,
  sender: fc.constant("s"),
  recipient: ascii,
  startedAt: fc.integer({ min: 0, max: 2 ** 45 }),
  instance: ascii,
});
const window = fc.array(fc.tuple(fc.nat(86_400_000), fc.nat(1_000_000)), { maxLength: 1_000 })
  .map((entries) => entries.map(([at, count]) => [NOW + at, count] as const).sort(([a], [b]) => a - b));

Deno.test("window, begun deliveries and nonces are unchanged after packing and unpacking", () => {
  fc.assert(
    fc.property(
      window,
      fc.array(begun, { maxLength: BEGUN_MAX }),
      fc.nat(2 ** 32 - 1),
      fc.nat(LIMITS.senderNonces),
      (entries, deliveries, sealed, count) => {
        const record = { since: NOW, sealed, nonces: nonces(count), window: entries, begun: deliveries };
        const back = unpacked(packed(record));
        assertEquals(back, record);
        assertEquals(noncesIn(back.nonces), Array.from({ length: count }, (_, i) => ({ ...NONCE, name: nameOf(i) })));
      },
    ),
    { seed: 1, numRuns: 200 },
  );
});

Deno.test("a nonce keeps the exact time of its end, dated ahead or back", () => {
  for (const dated of [-300, -1, 0, 1, 300]) {
    const timestamp = SECOND + dated;
    const expiresAt = Math.max((timestamp + LIMITS.nonceGraceSeconds) * 1000, NOW + LIMITS.nonceKeptSeconds * 1000);
    assertEquals(noncesIn(nonces(1, { timestamp, expiresAt })), [{ name: nameOf(0), timestamp, expiresAt }]);
  }
});

Deno.test("a part holds its nonces, and ends after the last of them", () => {
  const bytes = nonces(LIMITS.senderPartNonces);
  assertEquals(unpackPart(packPart(bytes)), bytes);
  const later = { timestamp: SECOND + 9, expiresAt: NOW + 310_000 };
  bytes.set(nonces(1, later), 3 * NONCE_BYTES);
  assertEquals(partEnd(packPart(bytes)), NOW + 610_000);
});

Deno.test("bytes of another form are refused as malformed, never read past their end and never accepted", () => {
  const whole = packed({ nonces: nonces(3), window: [[NOW, 1], [NOW + 1, 1]], begun: [BEGUN, BEGUN] });
  const oneBegun = packed({ begun: [BEGUN] }).length - packed({}).length;
  const read = (value: unknown) => {
    const record = unpacked(value);
    return [record.window, record.begun, noncesIn(record.nonces)];
  };
  assertEquals(read(whole).map((part) => part.length), [2, 2, 3]);
  for (let length = 0; length < whole.length; length++) {
    const cut = whole.slice(0, length);
    const isBoundary = length === whole.length - oneBegun || length === whole.length - 2 * oneBegun;
    if (isBoundary) assert(read(cut));
    else assertThrows(() => read(cut), MalformedRecord, undefined, `${length} bytes`);
  }
  const others = [
    null,
    undefined,
    "x",
    1,
    {},
    [],
    new Uint8Array(0),
    new Uint8Array(17),
    new Uint8Array(65_536).fill(255),
    packed({ nonces: nonces(LIMITS.senderNonces + 1) }),
  ];
  for (const value of others) {
    assertThrows(() => read(value), MalformedRecord);
    assertThrows(() => partEnd(value), MalformedRecord);
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.boolean(), (bytes, isVersion) => {
      if (isVersion) bytes[0] = 1;
      for (const attempt of [() => read(bytes), () => partEnd(bytes)]) {
        try {
          attempt();
        } catch (error) {
          assert(error instanceof MalformedRecord, String(error));
        }
      }
    }),
    { seed: 2, numRuns: 500 },
  );
});

Deno.test("a window that is cut within its bytes, or has a number over 32 bits, is refused as malformed", () => {
  const time = "4279c7d7efc00000";
  const read = (window: string) => {
    const length = (window.length / 2).toString(16).padStart(4, "0");
    return unpacked(Uint8Array.fromHex(`01${time}00000000` + `0000${length}${window}`)).window;
  };
  assertEquals(read(""), []);
  assertEquals(read(`${time}00ffffffff0f`), [[NOW, 2 ** 32 - 1]]);
  assertEquals(read(`${time}ffffffff0f01`), [[NOW + 2 ** 32 - 1, 1]]);
  for (const rest of ["", "00", "000100", "0080", "00ffffffff", "008080808010", "00ffffffff7f", "00808080808000"]) {
    assertThrows(() => read(time + rest), MalformedRecord, undefined, rest);
  }
  for (const cut of ["42", time.slice(2)]) assertThrows(() => read(cut), MalformedRecord);
});

Deno.test("a record is kept for its nonces or its window, and with a begun delivery for eight days", () => {
  assertEquals([60_000, 3_600_000].map((windowMs) => senderKeptMs({ begun: [] }, windowMs)), [901_000, 7_200_000]);
  assertEquals(senderKeptMs({ begun: [BEGUN] }, 60_000), 8 * 86_400_000);
});

Deno.test("the record of a busy sender fits into 1,000 bytes with its key", () => {
  const bytes = packed({
    nonces: nonces(LIMITS.senderNonces),
    window: Array.from({ length: LIMITS.agentRequests }, (_, i) => [NOW + i * 1000, 100] as const),
    begun: [BEGUN, BEGUN],
  });
  assert(bytes.length + BEGUN.sender.length + 20 <= 1_000, `${bytes.length} bytes`);
});

Deno.test("the largest record is far below the bound of a stored value", () => {
  const long = {
    requestId: "r".repeat(128),
    sender: "s".repeat(160),
    recipient: "t".repeat(160),
    startedAt: NOW,
    instance: "i".repeat(26),
  };
  const bytes = packed({
    nonces: nonces(LIMITS.senderNonces),
    window: Array.from({ length: EXACT_WINDOW_REQUESTS_MAX }, (_, i) => [NOW + i, 1_000_000] as const),
    begun: Array.from({ length: BEGUN_MAX }, () => long),
  });
  assert(bytes.length < 65_536 / 3, `${bytes.length} bytes`);
});
