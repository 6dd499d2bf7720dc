/**
 * The nonces of stored messages (D-143). Without them a relay could hand over a message twice, because request IDs are
 * forgotten after a day, and the proof would still verify. A nonce is added in its message's transaction, because a
 * kill between the two would lose it.
 */
import { unixSeconds } from "../../../shared/protocol/time.ts";
import type { ProvenMessage } from "../check_proof.ts";
import type { Database } from "./database.ts";

/** Nonces of each sender. With one bound for all, a sender that floods would shorten the memory of the others. */
export const SEEN_PER_SENDER = 100_000;
/**
 * How long a nonce is kept: longer than a message may be old and ahead, so that a message with a forgotten nonce is
 * refused by its time.
 */
const KEPT_SECONDS = 778_500;
/** How long before this memory began a proof may have been signed. With less, messages on their way are refused. */
const GRACE_SECONDS = 300;

type SeenProof = Pick<ProvenMessage, "fromAgentDid" | "requestId" | "nonce" | "signedAt">;

/** `known`: it was stored with the same message. The others are refused. */
export type OldProof = "known" | "replayed" | "proof_too_old";

export class SeenProofs {
  readonly #counts = new Map<string, number>();

  constructor(private readonly db: Database) {}

  /**
   * Records in a new file since when nonces are known. If the agent has pins, an older file was lost, so proofs that
   * are older than 300 s are refused, because their nonces may have been in that file.
   *
   * @returns true when an older file is lost
   */
  begin(hasPins: boolean, now: number): boolean {
    if (this.db.get("SELECT 1 FROM memory") !== null) return false;
    this.db.run("INSERT INTO memory (since) VALUES (?)", hasPins ? unixSeconds(now) - GRACE_SECONDS : 0);
    return hasPins;
  }

  judge({ fromAgentDid: fromDid, requestId, nonce, signedAt }: SeenProof): "new" | OldProof {
    const sql = "SELECT requestId FROM seen_proofs WHERE fromDid = ? AND nonce = ?";
    const known = this.db.get(sql, fromDid, nonce);
    if (known !== null) return known.requestId === requestId ? "known" : "replayed";
    if (signedAt < (this.db.number("SELECT since FROM memory") ?? 0)) return "proof_too_old";
    return this.#count(fromDid) >= SEEN_PER_SENDER && signedAt <= this.#oldest(fromDid) ? "proof_too_old" : "new";
  }

  /** Remembers a proof that `judge` has found new. */
  add({ fromAgentDid: fromDid, requestId, nonce, signedAt }: SeenProof): void {
    const count = this.#count(fromDid);
    if (count >= SEEN_PER_SENDER) {
      this.db.run(
        `DELETE FROM seen_proofs WHERE (fromDid, nonce) IN
         (SELECT fromDid, nonce FROM seen_proofs WHERE fromDid = ? ORDER BY signedAt LIMIT 1)`,
        fromDid,
      );
    }
    this.db.run(
      "INSERT INTO seen_proofs (fromDid, nonce, requestId, signedAt) VALUES (?, ?, ?, ?)",
      ...[fromDid, nonce, requestId, signedAt],
    );
    this.#counts.set(fromDid, Math.min(count + 1, SEEN_PER_SENDER));
  }

  /** Counts the nonces again, because a failed transaction or a deletion has changed them. */
  recount(): void {
    this.#counts.clear();
  }

  /** Deletes what is too old to be accepted again. */
  forget(now: number): void {
    this.db.runWithoutSync("DELETE FROM seen_proofs WHERE signedAt < ?", unixSeconds(now) - KEPT_SECONDS);
    this.recount();
  }

  #count(fromDid: string): number {
    const sql = "SELECT count(*) FROM seen_proofs WHERE fromDid = ?";
    return this.#counts.getOrInsertComputed(fromDid, () => this.db.number(sql, fromDid) ?? 0);
  }

  #oldest(fromDid: string): number {
    return this.db.number("SELECT min(signedAt) FROM seen_proofs WHERE fromDid = ?", fromDid) ?? 0;
  }
}
