/**
 * Announces trust changes between services that share a store (D-64). The announcement is part of the commit that makes
 * the change and names the affected agents. Receivers read the records again.
 */
import { decodeTime } from "ulid";
import type { Clock } from "../../clock.ts";
import { isUlid } from "../../protocol/ids.ts";
import type { NewId } from "../../protocol/ids.ts";
import type { Log } from "../log.ts";
import { WatchedKey } from "./watched_key.ts";

const BELL = ["bell", "trust"];
const NOTE_KEPT_MS = 15 * 60_000;

interface Announcement {
  agentDids: string[];
  /** The previous version wrote notes of pairs too. No service reads them. */
  change: "revocation" | "pair";
  /** ULID of the announcement. Absent in notes of the previous version. */
  seq?: string;
}

/** Adds an announcement to a commit that changes sessions or revocations of these agents. Returns the commit. */
export function announceTrustChange(
  operation: Deno.AtomicOperation,
  newId: NewId,
  agentDids: readonly string[],
): Deno.AtomicOperation {
  const seq = newId();
  const note: Announcement = { agentDids: [...agentDids], change: "revocation", seq };
  // The store numbers the notes in the order of their commits, so a reader needs one cursor, regardless of the clocks of
  // the writers (D-214).
  const committed = Deno.Kv.prototype.commitVersionstamp();
  return operation.set(BELL, { seq }).set([...BELL, committed], note, { expireIn: NOTE_KEPT_MS });
}

/**
 * Handles changes of these agents. `since` is the time of the oldest announcement among them, milliseconds since the
 * Unix epoch by the clock of its writer; `null` when it is not known.
 */
export type OnTrustChange = (agentDids: string[], since: number | null) => void;

/** Notes of the previous version have a ULID in place of a versionstamp, which sorts behind every versionstamp. */
const ULIDS = "01";

/**
 * Receives announcements. It reads only notes that were committed after the newest one it has read (D-214). Each note
 * is handled once.
 */
export class TrustChanges {
  readonly #kv: Deno.Kv;
  readonly #clock: Clock;
  readonly #onChange: OnTrustChange;
  readonly #watched: WatchedKey;
  /** Versionstamp of the newest note that was read. */
  #cursor = "";
  /** Notes of the previous version that were read, with the time at which they are forgotten. */
  readonly #known = new Map<string, number>();

  constructor(deps: { kv: Deno.Kv; clock: Clock; log: Log }, onChange: OnTrustChange) {
    this.#kv = deps.kv;
    this.#clock = deps.clock;
    this.#onChange = onChange;
    this.#watched = new WatchedKey(deps, {
      key: BELL,
      handler: () => this.#read(),
      failureEvents: { poll: "bell_look_failed", watch: "bell_watch_failed" },
    });
  }

  /**
   * Calls `onChange` for changes from now on. A service that starts reads the records of older changes themselves.
   *
   * @throws {StoreUnavailable}
   */
  async start(): Promise<void> {
    const [newest, old] = await Promise.all([
      this.#kv.get(BELL),
      Array.fromAsync(this.#kv.list({ prefix: BELL, start: [...BELL, ULIDS] })),
    ]);
    this.#cursor = newest.versionstamp ?? "";
    for (const { key } of old) this.#remember(String(key.at(-1)));
    this.#watched.start();
  }

  /** Ends the watch and the polls. No change is reported after this. */
  stop(): void {
    this.#watched.stop();
  }

  /** Reads the new notes. Never rejects. */
  poll(): Promise<void> {
    return this.#watched.poll();
  }

  async #read(): Promise<void> {
    const agentDids = new Set<string>();
    let isRevocation = false;
    let since: number | null = null;
    try {
      // Notes of the previous version come last, and all of them are read. There are none once that version has stopped.
      for await (
        const { key, value } of this.#kv.list<Announcement>({ prefix: BELL, start: [...BELL, this.#cursor] })
      ) {
        const id = String(key.at(-1));
        if (id === this.#cursor || this.#known.has(id)) continue;
        if (id < ULIDS) this.#cursor = id;
        else this.#remember(id);
        if (value.change === "pair") continue;
        isRevocation = true;
        if (isUlid(value.seq)) since = Math.min(since ?? Infinity, decodeTime(value.seq));
        for (const did of value.agentDids) agentDids.add(did);
      }
    } finally {
      // Also after a failure halfway: a note that was read is not read again.
      if (isRevocation && !this.#watched.isStopped) this.#onChange([...agentDids], since);
    }
    const now = this.#clock.now();
    for (const [id, until] of this.#known) if (until < now) this.#known.delete(id);
  }

  #remember(id: string): void {
    // Twice the lifetime of a note, because the store deletes expired records late.
    this.#known.set(id, this.#clock.now() + NOTE_KEPT_MS * 2);
  }
}
