/**
 * Revocations in the store (D-21): one key for each revoked AIT, written in the commit of the change that revokes it,
 * and the list's sequence number, one more with each.
 */
import type { Revocation } from "../../shared/protocol/crl.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import { ringTrustBell } from "../../shared/server/bell.ts";
import { sleep } from "../../shared/clock.ts";
import { fraction } from "../../shared/random.ts";
import { StoreUnavailable } from "../../shared/server/kv.ts";
import { type AgentRecord, aitExpiry } from "../agents/store.ts";
import type { RegistryDeps } from "../deps.ts";
import { KEYS } from "../keys.ts";

/** A revocation as stored: the list's entry, and until when it must be kept (unix seconds). */
export interface RevocationRecord extends Revocation {
  keptUntil: number;
}

/** Where the list stands. `seq` is 0 until the first revocation ever. */
export interface CrlHead {
  seq: number;
}

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
 * Commits a change together with the revocation of the agent's current AIT.
 *
 * @param change adds the change and its own checks to the commit
 * @param concerned the entries that the change checks: when one of them has moved, the change has lost
 * @returns false when the change lost; meeting just another revocation is tried again
 * @throws {StoreUnavailable} when the list stays contended
 */
export async function withRevocation(
  deps: RegistryDeps,
  agent: AgentRecord,
  reason: Revocation["reason"],
  change: (operation: Deno.AtomicOperation) => Deno.AtomicOperation,
  ...concerned: Deno.KvEntryMaybe<unknown>[]
): Promise<boolean> {
  const now = deps.clock.now();
  const keptUntil = Math.ceil(aitExpiry(agent) / 1000) + LIMITS.crlKeptSeconds;
  const record: RevocationRecord = {
    jti: agent.currentJti,
    agentDid: agent.did,
    reason,
    revokedAt: unixSeconds(now),
    keptUntil,
  };
  for (let tries = 1; tries <= LIMITS.commitRetries; tries++) {
    if (tries > 2) await sleep(deps.clock, fraction(deps.random) * 2 ** tries);
    const [head, ...current] = await deps.kv.getMany<[CrlHead, ...unknown[]]>([
      KEYS.crlHead(),
      ...concerned.map((entry) => entry.key),
    ]);
    if (current.some((entry, i) => entry.versionstamp !== concerned[i]?.versionstamp)) return false;
    const next: CrlHead = { seq: seqOf(head.value) + 1 };
    const operation = change(deps.kv.atomic())
      .check(head)
      .set(head.key, next)
      .set(KEYS.revocation(record.jti), record, { expireIn: Math.max(1, keptUntil * 1000 - now) });
    if ((await ringTrustBell(operation, deps.newId, [agent.did]).commit()).ok) return true;
  }
  throw new StoreUnavailable(new Error("The revocation list stayed contended"));
}
