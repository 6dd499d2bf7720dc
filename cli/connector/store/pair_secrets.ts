/** The pair secrets of this agent's open tickets (D-146). One is deleted when a peer has proven its key with it. */
import { DAY_MS } from "../../../shared/clock.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Database } from "./database.ts";

/** A peer that confirmed in time may be listed this much later, when the connector was offline. */
const KEPT_AFTER_MS = DAY_MS;

export class PairSecrets {
  constructor(private readonly db: Database) {}

  /** Adds one; the oldest make room, since the proxy allows no more open tickets. `until`: expiry of the ticket. */
  add(secret: string, until: number): void {
    this.db.transaction(() => {
      this.db.run("INSERT INTO pair_secrets (secret, until) VALUES (?, ?)", secret, until + KEPT_AFTER_MS);
      const newest = "SELECT secret FROM pair_secrets ORDER BY rowid DESC LIMIT ?";
      this.db.run(`DELETE FROM pair_secrets WHERE secret NOT IN (${newest})`, LIMITS.openTickets);
    });
  }

  /** Those that still count. */
  open(now: number): string[] {
    return this.db.all("SELECT secret FROM pair_secrets WHERE until > ?", now).map(({ secret }) => String(secret));
  }

  remove(secret: string): void {
    this.db.run("DELETE FROM pair_secrets WHERE secret = ?", secret);
  }

  forget(now: number): void {
    this.db.run("DELETE FROM pair_secrets WHERE until <= ?", now);
  }
}
