/**
 * Converts the proxy's records of format 1 of the store (D-261): a record for each nonce and for each window become one
 * record for each sender. Nothing else reads those records. Deliveries have the same form in both formats.
 */
import { FORMAT_1_KEYS, KEYS } from "./kv_keys.ts";
import type { InstanceLease } from "./records.ts";
import { STORED } from "./retention.ts";
import { newSender, packWindow, partEnd, seal, storedSender, withNonce } from "./sender_record.ts";
import { DAY_MS } from "../../shared/clock.ts";
import { fromBase64Url } from "../../shared/protocol/base64url.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { nonceEnd, type NonceRecord } from "../../shared/server/nonces.ts";
import type { WindowRecord } from "../../shared/server/rate_limit.ts";
import type { Conversion, NewRecord } from "../../shared/server/store/store_format.ts";
import type { StoredKinds } from "../../shared/server/store/transfer.ts";

/** The end of each record of format 1 after an import. */
export const STORED_IN_FORMAT_1: StoredKinds = { ...STORED, nonce: nonceEnd };

/** A nonce of format 1: its SHA-256 and its record. */
interface UsedNonce {
  hash: Uint8Array;
  record: NonceRecord;
}

export const FROM_FORMAT_1: Conversion = {
  async liveInstance(kv, now) {
    for await (const { key, value } of kv.list<InstanceLease>({ prefix: KEYS.instances() })) {
      if (now < value.until) return String(key.at(-1));
    }
    return null;
  },

  async *records(kv, now) {
    let sender = "";
    let nonces: UsedNonce[] = [];
    for await (const { key, value } of kv.list<NonceRecord>({ prefix: FORMAT_1_KEYS.nonces() }, READ_TOGETHER)) {
      const [agentDid, digest] = [String(key[2]), String(key[3])];
      if (agentDid !== sender) {
        yield* recordsOf(kv, sender, nonces, now);
        [sender, nonces] = [agentDid, []];
      }
      const hash = fromBase64Url(digest);
      if (hash && now < nonceEnd(value)) nonces.push({ hash, record: value });
    }
    yield* recordsOf(kv, sender, nonces, now);
    for await (const { key } of kv.list({ prefix: FORMAT_1_KEYS.agentWindows() }, READ_TOGETHER)) {
      const agentDid = String(key[3]);
      const hasNonces = !(await kv.list({ prefix: FORMAT_1_KEYS.noncesOf(agentDid) }, { limit: 1 }).next()).done;
      if (!hasNonces) yield* recordsOf(kv, agentDid, [], now);
    }
  },

  async clean(kv) {
    for (const prefix of [FORMAT_1_KEYS.nonces(), FORMAT_1_KEYS.agentWindows()]) {
      for (;;) {
        const entries = await Array.fromAsync(kv.list({ prefix }, { limit: TOGETHER, batchSize: TOGETHER }));
        const operation = kv.atomic();
        for (const { key } of entries) operation.delete(key);
        await operation.commit();
        if (entries.length < TOGETHER) break;
      }
    }
  },
};

/** Deletions in one commit: their keys fit 80 KiB. */
const TOGETHER = 200;
const READ_TOGETHER = { batchSize: 500 };

/** Yields a sender's parts and its record. */
async function* recordsOf(
  kv: Deno.Kv,
  sender: string,
  nonces: readonly UsedNonce[],
  now: number,
): AsyncGenerator<NewRecord> {
  if (sender === "") return;
  const { value } = await kv.get<WindowRecord>(FORMAT_1_KEYS.agentWindow(sender));
  const window = packWindow((value ?? []).toSorted(([a], [b]) => a - b));
  const inOrder = nonces.toSorted((a, b) => a.record.expiresAt - b.record.expiresAt);
  let record = { ...newSender(now), window };
  for (const [i, { hash, record: nonce }] of inOrder.entries()) {
    const sealed = seal(record, i, now);
    record = { ...sealed.record, nonces: withNonce(sealed.record.nonces, hash, nonce), window };
    for (const { number, bytes } of sealed.parts) {
      const expireInMs = Math.max(1, partEnd(bytes) - now) + LIMITS.sweepMarginSeconds * 1000;
      yield { key: KEYS.senderPart(sender, number), value: bytes, expireInMs };
    }
  }
  // The length of the window is a setting; a day is the longest.
  yield { key: KEYS.sender(sender), ...storedSender(record, DAY_MS) };
}
