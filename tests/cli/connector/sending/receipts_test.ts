/** Receipts that the proxy rejects permanently leave the outbox; others are sent again (D-72). */
import { assertEquals } from "@std/assert";
import { ReceiptSender } from "../../../../cli/connector/sending/sending_loop.ts";
import type { Parts } from "../../../../cli/connector/parts.ts";
import { ApiError } from "../../../../shared/client/errors.ts";
import { keyPairFromSeed } from "../../../../shared/protocol/ed25519.ts";
import { ManualClock } from "../../../support/manual_clock.ts";
import { until, untilLater } from "../../../support/until.ts";
import { vectors } from "../../../support/vectors.ts";
import { Disk } from "../store/disk.ts";

const DID = "did:svc:localhost:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
const { publicKey, privateKey } = await keyPairFromSeed(new Uint8Array(32).fill(1));
const IDENTITY = { did: DID, ait: vectors("proof").ait, privateKey, accessToken: "" };
const ABOUT = { nonce: "A".repeat(24), bodySha256: "A".repeat(43) };

function senderOf(
  { ask, store, ...deps }: Pick<Parts, "clock" | "emit"> & Pick<Parts["proxy"], "ask"> & {
    store: Pick<Parts["store"], "receipts">;
  },
): ReceiptSender {
  return new ReceiptSender({
    ...deps,
    store,
    session: { current: () => Promise.resolve(IDENTITY) },
    publicKey,
    proxy: { ask },
    did: DID,
    peers: { isBlocked: () => false },
  } as unknown as Parts);
}

Deno.test("a receipt leaves the outbox when the proxy rejects it permanently, and stays after any other error", async (t) => {
  const cases: [status: number, code: string, left: number][] = [
    [404, "PROXY_RECEIPT_DELIVERY_NOT_FOUND", 0],
    [400, "PROXY_RELAY_RECEIPT_INVALID", 0],
    [403, "PROXY_RELAY_RECEIPT_FORBIDDEN", 0],
    [404, "NOT_FOUND", 1],
    [503, "PROXY_RELAY_UNAVAILABLE", 1],
  ];
  for (const [status, code, left] of cases) {
    await t.step(`${status} ${code}`, async () => {
      await using disk = await Disk.make();
      const { store, outbox } = disk.open();
      outbox.add({ fromDid: DID, requestId: "request-1", status: "processed_by_svc", at: 0, about: ABOUT });
      const events: string[] = [];
      const ask = () => Promise.reject(new ApiError(status, code, "refused", null));
      const sender = senderOf({ clock: new ManualClock(), store, ask, emit: (event) => void events.push(event) });
      sender.wake();
      await until(() => events.length > 0);
      assertEquals([outbox.size, events], [left, [left === 0 ? "receipt_refused" : "receipt_failed"]]);
      await sender.stop(0);
    });
  }
});

Deno.test("receipts that cannot be sent are reported once, and again only after the link was back", async () => {
  await using disk = await Disk.make();
  const { store, outbox } = disk.open();
  for (const n of [1, 2, 3]) {
    outbox.add({ fromDid: DID, requestId: `request-${n}`, status: "processed_by_svc", at: 0, about: ABOUT });
  }
  const clock = new ManualClock(), events: string[] = [];
  let tries = 0;
  const ask = () => (tries++, Promise.reject(new ApiError(503, "PROXY_RELAY_UNAVAILABLE", "refused", null)));
  const sender = senderOf({ clock, store, ask, emit: (event) => void events.push(event) });
  sender.wake();
  await untilLater(clock, () => tries >= 12);
  assertEquals(events, ["receipt_failed"]);
  sender.sendAllNow();
  await untilLater(clock, () => tries >= 24);
  assertEquals(events, ["receipt_failed", "receipt_failed"]);
  await sender.stop(0);
});
