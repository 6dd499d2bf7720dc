/**
 * Revocations in the store (D-21): one key for each revoked AIT, written in the commit of the change that revokes it,
 * and the list's sequence number, one more with each.
 */
import { aitExpiry } from "../agents/store.ts";
import type { Draft } from "../changes.ts";
import type { RegistryDeps } from "../deps.ts";
import { countRevocation } from "../quota.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { AgentRecord, CrlHead, QuotaRecord, RevocationRecord } from "../schema/records.ts";
import type { Revocation } from "../../shared/protocol/crl.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import { announceTrustChange } from "../../shared/server/store/trust_changes.ts";

/**
 * The sequence number that a stored head says.
 *
 * @throws {TypeError} for a head that does not parse: taken for "nothing was ever revoked" it would undo revocations
 */
export function seqOf(head: unknown): number {
  if (head === null) return 0;
  const { seq } = Object(head) as Partial<CrlHead>;
  if (!Number.isSafeInteger(seq) || (seq as number) < 1) throw new TypeError("The CRL head does not parse");
  return seq as number;
}

/**
 * Adds the revocation of the agent's current AIT to a change: the entry, the list's next number, and the owner's count.
 *
 * @param quota the owner's counts, as the change leaves them otherwise
 */
export async function addRevocation(
  deps: RegistryDeps,
  draft: Draft,
  agent: AgentRecord,
  reason: Revocation["reason"],
  quota: { key: Deno.KvKey; value: QuotaRecord },
): Promise<void> {
  const head = await draft.get<CrlHead>(KEYS.crlHead());
  const next: CrlHead = { seq: seqOf(head.value) + 1 };
  const now = deps.clock.now();
  const keptUntil = Math.ceil(aitExpiry(agent) / 1000) + LIMITS.crlKeptSeconds;
  const record: RevocationRecord = {
    jti: agent.currentJti,
    agentDid: agent.did,
    reason,
    revokedAt: unixSeconds(now),
    keptUntil,
  };
  draft.set(head.key, next);
  draft.set(quota.key, countRevocation(quota.value, keptUntil * 1000, now));
  draft.also((operation) => {
    operation.set(KEYS.revocation(record.jti), record, { expireIn: Math.max(1, keptUntil * 1000 - now) });
    announceTrustChange(operation, deps.newId, [agent.did]);
  });
}
