/**
 * The key families of the proxy that the expiry sweep deletes (D-217): families that grow with messages, and presence, whose
 * end depends on another record.
 */
import type { SweptFamily } from "../../shared/server/store/expiry_sweeper.ts";
import { KEYS } from "./kv_keys.ts";
import { receivedAtOf } from "./receipt_record.ts";
import type { Presence } from "./records.ts";
import { deliveryEnd, unpackDelivery } from "./delivery_record.ts";
import { partEnd } from "./sender_record.ts";

export function sweptFamilies(
  kv: Deno.Kv,
  options: { receiptKeptMs: number; instance: string; settle: (sender: unknown) => Promise<void> },
): readonly SweptFamily[] {
  return [
    {
      prefix: KEYS.allSenders(),
      // Not deleted: the record of a sender has its own expiry. Deliveries without an outcome leave it.
      hasEnded: async ({ value }) => {
        await options.settle(value);
        return false;
      },
    },
    {
      prefix: KEYS.allSenderParts(),
      hasEnded: ({ value }, now) => now >= partEnd(value),
    },
    {
      prefix: KEYS.allDeliveries(),
      hasEnded: ({ value }, now) => {
        const record = unpackDelivery(value, "");
        return record !== null && now >= deliveryEnd(record);
      },
    },
    {
      prefix: KEYS.allReceipts(),
      hasEnded: ({ value }, now) => now >= receivedAtOf(value) + options.receiptKeptMs,
    },
    {
      prefix: KEYS.allPresences(),
      // The store keeps a lease for a day after its end. A presence without an instance has its own expiry.
      hasEnded: async ({ value }) => {
        const { instance } = value as Presence;
        if (instance === "" || instance === options.instance) return false;
        return (await kv.get(KEYS.instance(instance))).value === null;
      },
    },
  ];
}
