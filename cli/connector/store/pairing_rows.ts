/** What pairing keeps on disk, so that a kill in the middle of it loses nothing. */
import { DAY_MS } from "../../../shared/clock.ts";
import type { PairingProfile } from "../../../shared/protocol/api/pairing.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Database } from "./database.ts";

/**
 * How long a secret stays after its ticket is over. With less, a peer that confirmed in time while the connector was
 * offline could not prove its key.
 */
const KEPT_AFTER_MS = DAY_MS;
/** How long a confirmation is repeated: as long as a proxy gives the same answer to a repeated confirmation. */
const KEPT_MS = DAY_MS;
/** Confirmations at a time. With more, a program that pastes tickets would fill the file. */
const ROWS_MAX = 100;

/** The pair secrets of this agent's open tickets (D-146). Each is deleted when a peer has proven its key with it. */
export class PairSecrets {
  constructor(private readonly db: Database) {}

  /**
   * Adds the secret of a ticket that expires at `until`. Keeps the newest secrets, one for each ticket that the proxy
   * lets an agent have open, because secrets of other tickets open nothing.
   */
  add(secret: string, until: number): void {
    this.db.transaction(() => {
      this.db.run("INSERT INTO pair_secrets (secret, until) VALUES (?, ?)", secret, until + KEPT_AFTER_MS);
      const newest = "SELECT secret FROM pair_secrets ORDER BY rowid DESC LIMIT ?";
      this.db.run(`DELETE FROM pair_secrets WHERE secret NOT IN (${newest})`, LIMITS.openTickets);
    });
  }

  /** The secrets that have not expired. */
  open(now: number): string[] {
    return this.db.all<{ secret: string }>("SELECT secret FROM pair_secrets WHERE until > ?", now)
      .map(({ secret }) => secret);
  }

  remove(secret: string): void {
    this.db.run("DELETE FROM pair_secrets WHERE secret = ?", secret);
  }

  forget(now: number): void {
    this.db.run("DELETE FROM pair_secrets WHERE until <= ?", now);
  }
}

export interface PairConfirmation {
  /** The whole ticket, with its pair secret. */
  ticket: string;
  profile: PairingProfile;
  /** Until when it is repeated, milliseconds. */
  until: number;
  /** The peer whose own server has the pair already; `null` before. */
  half: string | null;
}

/**
 * Tickets that this agent confirms and has not finished with. They are on disk, because a kill between the two halves
 * of a pair would otherwise leave one of them, which neither person can see.
 */
export class PairConfirmations {
  constructor(private readonly db: Database) {}

  /** Adds a confirmation, which is on disk when this returns; deletes the oldest over the bound. */
  begin(ticket: string, profile: PairingProfile, now: number): void {
    this.db.transaction(() => {
      const sql = "INSERT OR IGNORE INTO pair_confirmations (ticket, profile, until) VALUES (?, ?, ?)";
      this.db.run(sql, ticket, JSON.stringify(profile), now + KEPT_MS);
      const newest = "SELECT ticket FROM pair_confirmations ORDER BY rowid DESC LIMIT ?";
      this.db.run(`DELETE FROM pair_confirmations WHERE ticket NOT IN (${newest})`, ROWS_MAX);
    });
  }

  /** Stores that the peer's own server has the pair. */
  halfDone(ticket: string, did: string): void {
    this.db.run("UPDATE pair_confirmations SET half = ? WHERE ticket = ?", did, ticket);
  }

  end(ticket: string): void {
    this.db.run("DELETE FROM pair_confirmations WHERE ticket = ?", ticket);
  }

  all(): PairConfirmation[] {
    const sql = "SELECT ticket, profile, until, half FROM pair_confirmations ORDER BY rowid";
    return this.db.all<Omit<PairConfirmation, "profile"> & { profile: string }>(sql)
      .map((row) => ({ ...row, profile: JSON.parse(row.profile) }));
  }
}
