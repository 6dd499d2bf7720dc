/**
 * Announces changes of trust, such as a revocation, between services that share a store (D-64). The announcement is
 * part of the commit that makes the change, and names the agents that it affects. Receivers then read the records
 * again.
 */
import { type AtomicOperation, commitVersion, type Kv } from "../kv.ts";
import type { Clock } from "../../clock.ts";
import type { Log } from "../log.ts";
import { WatchedKey } from "./watched_key.ts";

const BELL = ["bell", "trust"];
const NOTE_KEPT_MS = 15 * 60_000;

interface Announcement {
  agentDids: string[];
  /** Milliseconds since the Unix epoch. */
  at: number;
}

/**
 * Adds an announcement to a commit that changes sessions or revocations of these agents. It may be called only once for
 * each commit, because a second announcement would get the same key and replace the first.
 *
 * @param at the time of the change, milliseconds since the Unix epoch
 */
export function announceTrustChange(operation: AtomicOperation, at: number, agentDids: readonly string[]): void {
  const note: Announcement = { agentDids: [...agentDids], at };
  // The store numbers the notes in the order of their commits, so a reader needs only one cursor, regardless of the
  // clocks of the writers.
  operation.set(BELL, at).set([...BELL, commitVersion()], note, { expireIn: NOTE_KEPT_MS });
}

/**
 * Handles changes of these agents. `since` is the time of the oldest announcement among them, milliseconds since the
 * Unix epoch by the clock of its writer.
 */
type OnTrustChange = (agentDids: string[], since: number) => void;

/** Receives announcements. It reads only notes that were committed after the last one, so each is handled once. */
export class TrustChanges {
  readonly #watched: WatchedKey;
  /** Versionstamp of the newest note that was read. */
  #cursor = "";

  constructor(private readonly deps: { kv: Kv; clock: Clock; log: Log }, private readonly onChange: OnTrustChange) {
    this.#watched = new WatchedKey(deps, {
      key: BELL,
      handler: () => this.#read(),
      failureEvents: { poll: "bell_look_failed", watch: "bell_watch_failed" },
    });
  }

  /**
   * Calls `onChange` for changes from now on. A service that starts needs no older ones, because it reads the records
   * themselves.
   *
   * @throws {StoreUnavailable}
   */
  async start(): Promise<void> {
    this.#cursor = (await this.deps.kv.get(BELL)).versionstamp ?? "";
    this.#watched.start();
  }

  /** Ends the watch and the polls. No change is reported afterwards. */
  stop(): void {
    this.#watched.stop();
  }

  /** Reads the new notes. Never rejects. */
  poll(): Promise<void> {
    return this.#watched.poll();
  }

  async #read(): Promise<void> {
    const agentDids = new Set<string>();
    let since = Infinity;
    try {
      for await (
        const { key, value } of this.deps.kv.list<Announcement>({ prefix: BELL, start: [...BELL, this.#cursor] })
      ) {
        const id = String(key.at(-1));
        if (id === this.#cursor) continue;
        this.#cursor = id;
        since = Math.min(since, value.at);
        for (const did of value.agentDids) agentDids.add(did);
      }
    } finally {
      // This also runs after a failure halfway, because a note that was read is not read again.
      if (since < Infinity && !this.#watched.isStopped) this.onChange([...agentDids], since);
    }
  }
}
