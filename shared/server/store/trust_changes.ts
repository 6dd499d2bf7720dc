/**
 * Announces to the services on one store that trust in some agents has changed (D-64). The note is part of the commit of
 * the change itself and names the agents, not the change: receivers read the records again.
 */
import type { Clock } from "../../clock.ts";
import type { NewId } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Log } from "../log.ts";

const BELL = ["bell", "trust"];
const NOTE_KEPT_MS = 15 * 60_000;

interface Announcement {
  agentDids: string[];
  /** The previous version wrote notes of pairs too. No service reads them. */
  change: "revocation" | "pair";
}

/** Adds to a commit that sessions or revocations of these agents have changed. */
export function announceTrustChange(
  operation: Deno.AtomicOperation,
  newId: NewId,
  agentDids: readonly string[],
): Deno.AtomicOperation {
  const note: Announcement = { agentDids: [...agentDids], change: "revocation" };
  // The store itself numbers notes, in the order of their commits: a reader needs one cursor, whatever the writers'
  // clocks say (D-214).
  const committed = Deno.Kv.prototype.commitVersionstamp();
  return operation.set(BELL, { seq: newId() }).set([...BELL, committed], note, { expireIn: NOTE_KEPT_MS });
}

/** Notes of the previous version have a ULID in place of a versionstamp, which sorts behind every versionstamp. */
const ULIDS = "01";

/**
 * Receives announcements: by a watch, and by a poll every 2 s in case the watch missed one. It reads only notes that were
 * committed after the newest one it has read (D-214). Each note is handled once.
 */
export class TrustChanges {
  readonly #kv: Deno.Kv;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #onChange: (agentDids: string[]) => void;
  /** Versionstamp of the newest note that was read. */
  #cursor = "";
  /** Notes of the previous version that were read, with the time at which they are forgotten. */
  readonly #known = new Map<string, number>();
  #reader: ReadableStreamDefaultReader<unknown> | null = null;
  #looking: Promise<void> | null = null;
  #cancel = () => {};
  #stopped = false;

  constructor(deps: { kv: Deno.Kv; clock: Clock; log: Log }, onChange: (agentDids: string[]) => void) {
    this.#kv = deps.kv;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#onChange = onChange;
  }

  /** Calls `heard` for changes from now on. A service that starts reads the records of older changes themselves. */
  async start(): Promise<void> {
    const [newest, old] = await Promise.all([
      this.#kv.get(BELL),
      Array.fromAsync(this.#kv.list({ prefix: BELL, start: [...BELL, ULIDS] })),
    ]);
    this.#cursor = newest.versionstamp ?? "";
    for (const { key } of old) this.#know(String(key.at(-1)));
    void this.#watch();
    this.#lookLater();
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
    this.#reader?.cancel().catch(() => {});
  }

  /** Reads the notes that are new. */
  poll(): Promise<void> {
    this.#looking ??= this.#poll()
      .catch((cause) => this.#log("warn", "bell_look_failed", { cause }))
      .finally(() => this.#looking = null);
    return this.#looking;
  }

  async #poll(): Promise<void> {
    const agentDids = new Set<string>();
    let isRevocation = false;
    try {
      // Of the previous version's notes, which come last, all are read. There are none once that version has stopped.
      for await (
        const { key, value } of this.#kv.list<Announcement>({ prefix: BELL, start: [...BELL, this.#cursor] })
      ) {
        const id = String(key.at(-1));
        if (id === this.#cursor || this.#known.has(id)) continue;
        if (id < ULIDS) this.#cursor = id;
        else this.#know(id);
        if (value.change === "pair") continue;
        isRevocation = true;
        for (const did of value.agentDids) agentDids.add(did);
      }
    } finally {
      // Also after a failure halfway: what was read is not read again.
      if (isRevocation && !this.#stopped) this.#onChange([...agentDids]);
    }
    const now = this.#clock.now();
    for (const [id, until] of this.#known) if (until < now) this.#known.delete(id);
  }

  #know(id: string): void {
    // Twice a note's life: the store deletes late.
    this.#known.set(id, this.#clock.now() + NOTE_KEPT_MS * 2);
  }

  #lookLater(): void {
    this.#cancel = this.#clock.after(LIMITS.bellLookMs, async () => {
      await this.poll();
      if (this.#stopped) return;
      if (!this.#reader) void this.#watch();
      this.#lookLater();
    });
  }

  async #watch(): Promise<void> {
    try {
      const reader = this.#reader = this.#kv.watch([BELL]).getReader();
      while (!(await reader.read()).done) {
        // A poll that is under way may have passed the new note already.
        await this.#looking;
        await this.poll();
      }
    } catch (cause) {
      if (!this.#stopped) this.#log("warn", "bell_watch_failed", { cause });
    } finally {
      this.#reader = null;
    }
  }
}
