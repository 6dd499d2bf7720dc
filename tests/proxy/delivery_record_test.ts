/** The stored form of a delivery and its end. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { deliveryEnd, packDelivery, unpackDelivery } from "../../proxy/schema/delivery_record.ts";
import type { DeliveryRecord } from "../../proxy/schema/records.ts";
import { toBase64Url } from "../../shared/protocol/base64url.ts";
import { toIso } from "../../shared/protocol/time.ts";

const NOW = Date.UTC(2026, 1, 21);
const DAY_MS = 86_400_000;
const RECORD: DeliveryRecord = {
  bodySha256: toBase64Url(new Uint8Array(32).fill(7)),
  startedAt: NOW,
  instance: null,
  answer: { accepted: true, delivered: true, connectedSockets: 4, requestId: "request-1" },
  answeredAt: NOW + 5,
  receiptAt: 0,
};

const time = fc.integer({ min: Date.UTC(2000), max: Date.UTC(2200) });
const record: fc.Arbitrary<DeliveryRecord> = fc.record({
  bodySha256: fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => toBase64Url(Uint8Array.from(bytes))),
  startedAt: time,
  instance: fc.option(fc.constant("01KHYQ5H00AAAAAAAAAAAAAAAA")),
  answer: fc.option(
    fc.record({
      delivered: fc.boolean(),
      connectedSockets: fc.integer({ min: 0, max: 4 }),
      reason: fc.option(fc.string({ unit: "grapheme", maxLength: 64 }), { nil: undefined }),
      expiresAt: fc.option(time.map(toIso), { nil: undefined }),
    }).map(({ reason, expiresAt, ...rest }) => ({
      accepted: true as const,
      ...rest,
      requestId: "request-1",
      ...(reason === undefined ? {} : { reason }),
      ...(expiresAt === undefined ? {} : { queued: true as const, expiresAt }),
    })),
  ),
  answeredAt: time,
  receiptAt: time,
  handedOverAt: fc.option(time, { nil: undefined }),
}).map(({ handedOverAt, ...rest }) => handedOverAt === undefined ? rest : { ...rest, handedOverAt });

Deno.test("a delivery record is unchanged after packing and unpacking", () => {
  fc.assert(
    fc.property(record, (one) => assertEquals(unpackDelivery(packDelivery(one), "request-1"), one)),
    { seed: 1, numRuns: 500 },
  );
});

Deno.test("a packed delivery is small and repeats no part of its key", () => {
  const bytes = packDelivery(RECORD);
  assert(bytes.length <= 79, `${bytes.length} bytes`);
  assert(!new TextDecoder().decode(bytes).includes("request-1"));
});

Deno.test("a delivery ends 8 days after answer, mailbox lifetime or start, or 24 h after its receipt", () => {
  const queued = { ...RECORD.answer, queued: true, expiresAt: toIso(NOW + DAY_MS) } as DeliveryRecord["answer"];
  const cases: [what: string, record: Partial<DeliveryRecord>, end: number][] = [
    ["answered", {}, NOW + 5 + 8 * DAY_MS],
    ["queued", { answer: queued }, NOW + 9 * DAY_MS],
    ["not answered", { answer: null, answeredAt: 0 }, NOW + 8 * DAY_MS],
    ["with a receipt", { receiptAt: NOW + 60_000 }, NOW + 60_000 + DAY_MS],
    ["queued, with a receipt", { answer: queued, receiptAt: NOW + 60_000 }, NOW + 60_000 + DAY_MS],
    ["with a receipt before its answer", { receiptAt: NOW + 1 }, NOW + 5 + DAY_MS],
  ];
  for (const [what, more, end] of cases) assertEquals(deliveryEnd({ ...RECORD, ...more }), end, what);
});
