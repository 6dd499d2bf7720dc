/**
 * The bell: how services that share a store tell each other that trust has changed (D-64). Rung in the commit of the
 * change itself; the note says whom it concerns. A doorbell, not the data: who hears it reads the records anew.
 */
import type { Clock } from "../clock.ts";
import type { NewId } from "../protocol/ids.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { Log } from "./log.ts";

const BELL = ["bell", "trust"];
const NOTE_KEPT_MS = 15 * 60_000;

/** What has changed: a revocation or a session, or only a pair. */
export type Change = "revocation" | "pair";

/** Adds to a commit that trust in these agents has changed. */
export function ringTrustBell(
  operation: Deno.AtomicOperation,
  newId: NewId,
  agentDids: readonly string[],
  change: Change = "revocation",
): Deno.AtomicOperation {
  const id = newId();
  const note: Note = { agentDids: [...agentDids], change };
  return operation.set(BELL, { seq: id }).set([...BELL, id], note, { expireIn: NOTE_KEPT_MS });
}

interface Note {
  agentDids: string[];
  change: Change;
}

/**
 * Listens to the bell: by a watch, and by a look every 2 s in case the watch was deaf for a moment. Each note is heard
 * once, also when it comes from an instance whose clock is a little behind.
 */
export class TrustBell {
  readonly #kv: Deno.Kv;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #heard: (agentDids: string[]) => void;
  /** Notes heard, with the moment they are forgotten. */
  readonly #known = new Map<string, number>();
  #reader: ReadableStreamDefaultReader<unknown> | null = null;
  #looking: Promise<void> | null = null;
  #cancel = () => {};
  #stopped = false;

  constructor(seams: { kv: Deno.Kv; clock: Clock; log: Log }, heard: (agentDids: string[]) => void) {
    this.#kv = seams.kv;
    this.#clock = seams.clock;
    this.#log = seams.log;
    this.#heard = heard;
  }

  /** Calls `heard` for revocations. Notes from before this moment are not heard: whoever starts has read the records themselves. */
  async start(): Promise<void> {
    for await (const { key } of this.#kv.list({ prefix: BELL })) this.#know(String(key.at(-1)));
    void this.#watch();
    this.#lookLater();
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
    this.#reader?.cancel().catch(() => {});
  }

  /** Reads the notes that are new. */
  look(): Promise<void> {
    this.#looking ??= this.#look()
      .catch((cause) => this.#log("warn", "bell_look_failed", { cause }))
      .finally(() => this.#looking = null);
    return this.#looking;
  }

  async #look(): Promise<void> {
    const agentDids = new Set<string>();
    let isRevocation = false;
    for await (const { key, value } of this.#kv.list<Note>({ prefix: BELL })) {
      const id = String(key.at(-1));
      if (this.#known.has(id) || key.length === BELL.length) continue;
      this.#know(id);
      // A pair is read from the store with every message: nothing is kept that this would empty.
      if (value.change === "pair") continue;
      isRevocation = true;
      for (const did of value.agentDids) agentDids.add(did);
    }
    const now = this.#clock.now();
    for (const [id, until] of this.#known) if (until < now) this.#known.delete(id);
    if (isRevocation && !this.#stopped) this.#heard([...agentDids]);
  }

  #know(id: string): void {
    // Twice a note's life: the store deletes late.
    this.#known.set(id, this.#clock.now() + NOTE_KEPT_MS * 2);
  }

  #lookLater(): void {
    this.#cancel = this.#clock.after(LIMITS.bellLookMs, async () => {
      await this.look();
      if (this.#stopped) return;
      if (!this.#reader) void this.#watch();
      this.#lookLater();
    });
  }

  async #watch(): Promise<void> {
    try {
      const reader = this.#reader = this.#kv.watch([BELL]).getReader();
      while (!(await reader.read()).done) {
        // A look that is under way may have passed the new note already.
        await this.#looking;
        await this.look();
      }
    } catch (cause) {
      if (!this.#stopped) this.#log("warn", "bell_watch_failed", { cause });
    } finally {
      this.#reader = null;
    }
  }
}
