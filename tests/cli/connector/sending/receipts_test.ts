/** Receipts that the proxy rejects permanently leave the outbox; others are sent again (D-72). */
import { assertEquals } from "@std/assert";
import { ReceiptSender } from "../../../../cli/connector/sending/sending_loop.ts";
import { ApiError } from "../../../../shared/client/errors.ts";
import { keyPairFromSeed } from "../../../../shared/protocol/ed25519.ts";
import { ManualClock } from "../../../support/manual_clock.ts";
import { until } from "../../../support/until.ts";
import { vectors } from "../../../support/vectors.ts";
import { Disk } from "../store/disk.ts";

const DID = "did:svc:localhost:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
const { publicKey, privateKey } = await keyPairFromSeed(new Uint8Array(32).fill(1));
const IDENTITY = { did: DID, ait: vectors("proof").ait, privateKey, accessToken: "" };

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
      const about = { nonce: "A".repeat(24), bodySha256: "A".repeat(43) };
      outbox.add({ fromDid: DID, requestId: "request-1", status: "processed_by_svc", at: 0, about });
      const clock = new ManualClock();
      const events: string[] = [];
      const sender = new ReceiptSender({
        clock,
        store,
        session: { current: () => Promise.resolve(IDENTITY) },
        publicKey,
        proxy: { ask: () => Promise.reject(new ApiError(status, code, "refused", null)) },
        did: DID,
        peers: { isBlocked: () => false },
        emit: (event) => void events.push(event),
      });
      sender.wake();
      await until(() => events.length > 0);
      assertEquals([outbox.size, events], [left, [left === 0 ? "receipt_refused" : "receipt_failed"]]);
      await sender.stop(0);
    });
  }
});
