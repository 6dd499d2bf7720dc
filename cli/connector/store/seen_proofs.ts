/**
 * The nonces of stored messages (D-143), so that a relay can hand over none twice: the rule on the request ID forgets after a
 * day, and the same proof would still verify. Call the methods in the transaction that stores the message.
 */
import { unixSeconds } from "../../../shared/protocol/time.ts";
import type { Database } from "./database.ts";

/** A sender that floods shortens its own window only. */
export const SEEN_PER_SENDER = 100_000;
/** Longer than a message may be old and ahead, so that a forgotten nonce is refused by its time. */
const KEPT_SECONDS = 778_500;
/** A message on its way when the memory began. */
const GRACE_SECONDS = 300;

/** A proof of a message. `signedAt`: Unix seconds. */
export interface SeenProof {
  fromDid: string;
  requestId: string;
  nonce: string;
  signedAt: number;
}

export class SeenProofs {
  readonly #counts = new Map<string, number>();

  constructor(private readonly db: Database) {}

  /**
   * Sets from when on the nonces are known, when the file is new. Beside pins a new file has lost the memory of an older one.
   *
   * @returns true when that memory is lost
   */
  begin(hasPins: boolean, now: number): boolean {
    if (this.db.get("SELECT 1 FROM memory") !== null) return false;
    this.db.run("INSERT INTO memory (since) VALUES (?)", hasPins ? unixSeconds(now) - GRACE_SECONDS : 0);
    return hasPins;
  }

  /** Whether a proof is new, was stored with the same message, or must be refused. */
  judge({ fromDid, requestId, nonce, signedAt }: SeenProof): "new" | "known" | "replayed" | "proof_too_old" {
    const sql = "SELECT requestId FROM seen_proofs WHERE fromDid = ? AND nonce = ?";
    const known = this.db.get(sql, fromDid, nonce);
    if (known !== null) return known.requestId === requestId ? "known" : "replayed";
    if (signedAt < (this.db.number("SELECT since FROM memory") ?? 0)) return "proof_too_old";
    return this.#count(fromDid) >= SEEN_PER_SENDER && signedAt <= this.#oldest(fromDid) ? "proof_too_old" : "new";
  }

  /** Remembers a proof that `judge` has found new. */
  add({ fromDid, requestId, nonce, signedAt }: SeenProof): void {
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

  /** Counts again what a transaction may have undone. */
  recount(): void {
    this.#counts.clear();
  }

  /** Deletes what is too old to be accepted again. */
  forget(now: number): void {
    this.db.runWithoutSync("DELETE FROM seen_proofs WHERE signedAt < ?", unixSeconds(now) - KEPT_SECONDS);
    this.recount();
  }

  #count(fromDid: string): number {
    const known = this.#counts.get(fromDid);
    if (known !== undefined) return known;
    const count = this.db.number("SELECT count(*) FROM seen_proofs WHERE fromDid = ?", fromDid) ?? 0;
    this.#counts.set(fromDid, count);
    return count;
  }

  #oldest(fromDid: string): number {
    return this.db.number("SELECT min(signedAt) FROM seen_proofs WHERE fromDid = ?", fromDid) ?? 0;
  }
}
