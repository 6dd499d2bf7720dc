/** The packed record of a sender and its sealed parts (D-261): vectors, round trips, hostile bytes, and the worst case. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { decodeHex, encodeHex } from "@std/encoding/hex";
import fc from "fast-check";
import {
  type BegunDelivery,
  isUsedIn,
  MalformedRecord,
  newSender,
  NONCE_BYTES,
  noncesIn,
  nonceTotal,
  packBegun,
  PackedWindow,
  packSender,
  packWindow,
  partEnd,
  seal,
  type SenderRecord,
  storedSender,
  unpackBegun,
  unpackPart,
  unpackSender,
  withNonce,
} from "../../proxy/schema/sender_record.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { digestBytes } from "../../shared/server/crypto.ts";
import type { NonceRecord } from "../../shared/server/nonces.ts";
import { entriesOf } from "../support/window_entries.ts";

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

/** A record with nonces named 0, 1, 2 and so on. */
function withNonces(count: number, record: NonceRecord = NONCE): SenderRecord {
  let nonces: Uint8Array = new Uint8Array();
  for (let i = 0; i < count; i++) nonces = withNonce(nonces, digestBytes(String(i)), record);
  return { ...newSender(NOW), nonces };
}

Deno.test("a packed record has the bytes of the layout", () => {
  const record: SenderRecord = {
    since: NOW,
    sealed: 3,
    nonces: withNonce(new Uint8Array(), digestBytes("nonce"), { timestamp: SECOND, expiresAt: NOW + 301_500 }),
    window: packWindow([[NOW, 2], [NOW + 1000, 1]]),
    begun: packBegun([{ ...BEGUN, requestId: "abcdefgh", sender: "s", recipient: "r", instance: "i" }]),
  };
  const wanted = [
    "01" + "4279c7d7efc00000" + "00000003" + "0013" + "0018",
    "78377b525757b494427f8901" + "6998f580" + "0001f4",
    "4279c7d7efc00000" + "00000000" + "00000002" + "000003e8" + "00000001",
    "4279c7d7efc07000" + "08" + "6162636465666768" + "0173" + "0172" + "0169",
  ].join("");
  assertEquals(encodeHex(packSender(record)), wanted);
  assertEquals(unpackSender(decodeHex(wanted)), record);
});

const ascii = fc.string({ unit: "grapheme-ascii", maxLength: 160 });
const begun = fc.record({
  requestId: ascii,
  sender: ascii,
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
      fc.array(begun, { maxLength: LIMITS.senderBegun }),
      fc.nat(2 ** 32 - 1),
      fc.nat(LIMITS.senderNoncesMax),
      (entries, deliveries, sealed, count) => {
        const { nonces } = withNonces(Math.min(count, 20));
        const record = { since: NOW, sealed, nonces, window: packWindow(entries), begun: packBegun(deliveries) };
        const back = unpackSender(packSender(record));
        assertEquals(back, record);
        assertEquals(entriesOf(new PackedWindow(back.window)), entries.map(([at, n]): [number, number] => [at, n]));
        assertEquals(unpackBegun(back.begun), deliveries);
        assertEquals(nonceTotal(back), sealed * LIMITS.senderPartNonces + nonces.length / NONCE_BYTES);
      },
    ),
    { seed: 1, numRuns: 200 },
  );
});

Deno.test("a nonce keeps the exact time of its end, dated ahead or back", () => {
  for (const dated of [-300, -1, 0, 1, 300]) {
    const timestamp = SECOND + dated;
    const expiresAt = Math.max((timestamp + LIMITS.nonceGraceSeconds) * 1000, NOW + LIMITS.nonceKeptSeconds * 1000);
    const nonces = withNonce(new Uint8Array(), digestBytes("nonce"), { timestamp, expiresAt });
    assertEquals([...noncesIn(nonces)].map(([, record]) => record), [{ timestamp, expiresAt }]);
    const isUsed = (nonce: string, now: number) => isUsedIn(nonces, digestBytes(nonce), SECOND + 999, now);
    assertEquals([isUsed("nonce", expiresAt - 1), isUsed("nonce", expiresAt)], [true, false]);
    assertEquals(isUsed("another", NOW), false);
    assertEquals(isUsedIn(nonces, digestBytes("nonce"), timestamp, expiresAt), true, "the same timestamp");
  }
});

Deno.test("a full record seals its oldest 32 nonces, and only those that are known", () => {
  const full = withNonces(LIMITS.senderNonces);
  assertEquals(seal(withNonces(LIMITS.senderNonces - 1), 1_000, NOW).parts, []);
  assertEquals(seal(full, LIMITS.senderPartNonces - 1, NOW).parts, []);
  const { record, parts: [part, ...others] } = seal(full, LIMITS.senderPartNonces, NOW);
  assert(part);
  assertEquals([others.length, part.number, record.sealed, nonceTotal(record)], [0, 0, 1, 64]);
  for (let i = 0; i < LIMITS.senderNonces; i++) {
    const isOld = i < LIMITS.senderPartNonces, hash = digestBytes(String(i));
    assertEquals(isUsedIn(unpackPart(part.bytes), hash, SECOND, NOW), isOld);
    assertEquals(isUsedIn(record.nonces, hash, SECOND, NOW), !isOld);
  }
  assertEquals(partEnd(part.bytes), NOW + 601_000);
  const many = seal(withNonces(200), 200, NOW);
  assertEquals([many.parts.map(({ number }) => number), nonceTotal(many.record)], [[0, 1, 2, 3, 4], 200]);
});

Deno.test("nonces that have all ended leave a full record without a part, and keep their numbers", () => {
  const full = withNonces(LIMITS.senderNonces);
  const end = NOW + 601_000;
  assertEquals(seal(full, 64, end - 1).parts.length, 1);
  const { record, parts } = seal(full, 64, end);
  assertEquals([parts, record.sealed, nonceTotal(record)], [[], 1, 64]);
});

Deno.test("bytes of another form are refused as malformed, never read past their end and never accepted", () => {
  const whole = packSender({
    ...withNonces(3),
    window: packWindow([[NOW, 1], [NOW + 1, 1]]),
    begun: packBegun([BEGUN, BEGUN]),
  });
  const read = (value: unknown) => {
    const record = unpackSender(value);
    return [entriesOf(new PackedWindow(record.window)), unpackBegun(record.begun), [...noncesIn(record.nonces)]];
  };
  assertEquals(read(whole).map((part) => part.length), [2, 2, 3]);
  for (let length = 0; length < whole.length; length++) {
    const cut = whole.slice(0, length);
    const isBoundary = length === whole.length - packBegun([BEGUN]).length ||
      length === whole.length - packBegun([BEGUN, BEGUN]).length;
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
    { seed: 2, numRuns: 2_000 },
  );
});

Deno.test("a record is kept for its nonces or its window, and with a begun delivery for eight days", () => {
  const kept = (record: SenderRecord, windowMs: number) => storedSender(record, windowMs).expireInMs / 1000;
  const begun = packBegun([BEGUN]);
  assertEquals([kept(newSender(NOW), 60_000), kept(newSender(NOW), 3_600_000)], [901, 7_200]);
  assertEquals(kept({ ...newSender(NOW), begun }, 60_000), 8 * 86_400);
});

Deno.test("the largest record is far below the bound of a stored value", () => {
  const long = {
    requestId: "r".repeat(128),
    sender: "s".repeat(160),
    recipient: "t".repeat(160),
    startedAt: NOW,
    instance: "i".repeat(26),
  };
  const bytes = packSender({
    ...withNonces(LIMITS.senderNoncesMax),
    window: packWindow(Array.from({ length: LIMITS.exactWindowRequests }, (_, i) => [NOW + i, 1_000_000] as const)),
    begun: packBegun(Array.from({ length: LIMITS.senderBegun }, () => long)),
  });
  assert(bytes.length < LIMITS.storeValueBytes / 3, `${bytes.length} bytes`);
  assert(bytes.length + LIMITS.senderNoncesMax * NONCE_BYTES < LIMITS.commitBytes / 10);
});
