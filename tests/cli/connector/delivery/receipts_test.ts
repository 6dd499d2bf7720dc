/** Receipts that the proxy rejects permanently leave the outbox; others are sent again (D-72, D-218). */
import { assertEquals } from "@std/assert";
import { Database } from "../../../../cli/connector/delivery/database.ts";
import { Outbox } from "../../../../cli/connector/delivery/outbox.ts";
import { ReceiptSender } from "../../../../cli/connector/delivery/receipts.ts";
import { ApiError } from "../../../../shared/client/errors.ts";
import { ManualClock } from "../../../support/manual_clock.ts";
import { until } from "../../../support/until.ts";

const DID = "did:svc:localhost:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";

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
      const folder = await Deno.makeTempDir({ prefix: "svc_receipts_" });
      const db = Database.open(`${folder}/connector.db`);
      const outbox = new Outbox(db);
      outbox.add({ fromDid: DID, requestId: "request-1", status: "processed_by_svc", at: 0 });
      const clock = new ManualClock();
      const events: string[] = [];
      const sender = new ReceiptSender({
        clock,
        outbox,
        proxy: { ask: () => Promise.reject(new ApiError(status, code, "refused", null)) },
        recipientDid: DID,
        tell: (event) => void events.push(event),
      });
      sender.wake();
      await until(() => events.length > 0);
      assertEquals([outbox.size, events], [left, [left === 0 ? "receipt_refused" : "receipt_failed"]]);
      await sender.stop(0);
      db.close();
      await Deno.remove(folder, { recursive: true });
    });
  }
});
