/**
 * Revocations in the store: one key for each revoked AIT. The commit that revokes an AIT writes the key and raises the
 * list's sequence number by one, which tells the publisher that its list is old.
 */
import type { KvKey } from "../../shared/server/kv.ts";
import { countRevocation } from "../quota.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { AgentRecord, CrlHead, QuotaRecord, RevocationRecord } from "../schema/records.ts";
import type { Revocation } from "../../shared/protocol/signed/crl.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseIso, unixSeconds } from "../../shared/protocol/time.ts";
import type { Draft } from "../../shared/server/store/changes.ts";
import type { StoreDeps } from "../../shared/server/store/open_store.ts";

/**
 * Returns the sequence number in a stored head, which is 0 when nothing was ever revoked.
 *
 * @throws {TypeError} when the head does not parse, because treating it as 0 would undo revocations
 */
export function seqOf(head: unknown): number {
  if (head === null) return 0;
  const { seq } = Object(head) as Partial<CrlHead>;
  if (!Number.isSafeInteger(seq) || (seq as number) < 1) throw new TypeError("The CRL head does not parse");
  return seq as number;
}

/**
 * Adds the revocation of an agent's present AIT to a change: the entry, the next sequence number of the list, and the
 * owner's count.
 *
 * @param quota the owner's counts as the other parts of the change leave them
 */
export async function addRevocation(
  deps: Pick<StoreDeps, "clock">,
  draft: Draft,
  { currentJti: jti, did: agentDid, expiresAt }: AgentRecord,
  reason: Revocation["reason"],
  quota: { key: KvKey; value: QuotaRecord },
): Promise<void> {
  const head = await draft.get<CrlHead>(KEYS.crlHead());
  const next: CrlHead = { seq: seqOf(head.value) + 1 };
  const now = deps.clock.now();
  // At least an hour from now, because the pairs of an agent whose AIT has expired would otherwise outlive the agent: a
  // proxy ends them when the list names it.
  const keptUntil = Math.ceil(Math.max(parseIso(expiresAt) ?? 0, now) / 1000) + LIMITS.crlEntryKeptSeconds;
  const record: RevocationRecord = { jti, agentDid, reason, revokedAt: unixSeconds(now), keptUntil };
  draft.set(head.key, next);
  draft.set(quota.key, countRevocation(quota.value, keptUntil * 1000, now));
  draft.also((operation) => operation.set(KEYS.revocation(jti), record, { expireIn: keptUntil * 1000 - now }));
  draft.announce([agentDid]);
}
