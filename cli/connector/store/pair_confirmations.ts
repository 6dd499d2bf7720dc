/**
 * Tickets that this agent confirms and has not finished with: a kill between the two halves of a pair would otherwise leave one
 * of them, which neither person can see.
 */
import { DAY_MS } from "../../../shared/clock.ts";
import type { PairingProfile } from "../../../shared/protocol/api/pairing.ts";
import type { Database } from "./database.ts";

/** As long as a proxy gives the same answer to the same confirmation. */
const KEPT_MS = DAY_MS;
/** With more, a program that pastes tickets would fill the file. */
const ROWS_MAX = 100;

export interface PairConfirmation {
  /** The whole ticket, with its pair secret. */
  ticket: string;
  profile: PairingProfile;
  /** Until when it is repeated, milliseconds. */
  until: number;
  /** The peer whose own server has the pair already; `null` before. */
  half: string | null;
}

export class PairConfirmations {
  constructor(private readonly db: Database) {}

  /** Adds one; the oldest make room. It is on disk when this returns. */
  begin(ticket: string, profile: PairingProfile, now: number): void {
    this.db.transaction(() => {
      const sql = "INSERT OR IGNORE INTO pair_confirmations (ticket, profile, until) VALUES (?, ?, ?)";
      this.db.run(sql, ticket, JSON.stringify(profile), now + KEPT_MS);
      const newest = "SELECT ticket FROM pair_confirmations ORDER BY rowid DESC LIMIT ?";
      this.db.run(`DELETE FROM pair_confirmations WHERE ticket NOT IN (${newest})`, ROWS_MAX);
    });
  }

  /** The peer's own server has the pair. */
  halfDone(ticket: string, did: string): void {
    this.db.run("UPDATE pair_confirmations SET half = ? WHERE ticket = ?", did, ticket);
  }

  end(ticket: string): void {
    this.db.run("DELETE FROM pair_confirmations WHERE ticket = ?", ticket);
  }

  /** Those that are not finished, oldest first. */
  all(): PairConfirmation[] {
    return this.db.all("SELECT ticket, profile, until, half FROM pair_confirmations ORDER BY rowid").map((row) => ({
      ticket: String(row.ticket),
      profile: JSON.parse(String(row.profile)),
      until: Number(row.until),
      half: row.half === null ? null : String(row.half),
    }));
  }
}
