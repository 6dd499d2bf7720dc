/**
 * Notes between proxy instances on one store. A note is stored in the inbox of its receiver, and the same commit
 * changes the receiver's wake key, which the receiver watches. Does not know what notes mean.
 */
import { KEYS } from "../schema/kv_keys.ts";
import type { StoredInstanceMessage } from "../schema/records.ts";
import type { Clock } from "../../shared/clock.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import type { Log } from "../../shared/server/log.ts";
import { concatChunks, splitChunks } from "../../shared/server/store/chunks.ts";
import { addWrite, type Update, type Write } from "../../shared/server/store/group_commit.ts";
import { WatchedKey } from "../../shared/server/store/watched_key.ts";

/** Handles a note. Called in the order in which the notes were written. */
export type Receive = (body: unknown, bytes: Uint8Array) => void;

interface InboxDeps {
  kv: Deno.Kv;
  clock: Clock;
  newId: NewId;
  log: Log;
  /** ID of this instance. */
  instance: string;
}

const NOTE_KEPT_MS = 60_000;
/** Notes read from the inbox in one commit: a commit may hold 1,000 deletions, and a note has at most 13 parts. */
const NOTES_AT_ONCE = 50;
const NO_BYTES = new Uint8Array();

export class InstanceInbox {
  /** Called for each note. */
  onNote: Receive = () => {};
  readonly #deps: InboxDeps;
  readonly #watched: WatchedKey;
  #isStarted = false;

  constructor(deps: InboxDeps) {
    this.#deps = deps;
    this.#watched = new WatchedKey(deps, {
      key: KEYS.instanceBell(deps.instance),
      handler: () => this.#read(),
      failureEvents: { poll: "inbox_look_failed", watch: "bus_watch_failed" },
    });
  }

  /** ID of this instance. */
  get instance(): string {
    return this.#deps.instance;
  }

  /** Starts to receive notes. */
  start(): void {
    this.#isStarted = true;
    this.#watched.start();
  }

  /**
   * Ends the watch and the polls, and reads the notes that were written before the call. Later ones stay in the store
   * for a minute. Never rejects.
   */
  async stop(): Promise<void> {
    if (!this.#isStarted) return;
    this.#isStarted = false;
    this.#watched.stop();
    await this.#watched.onChange();
  }

  /** Reads the inbox. Never rejects. */
  poll(): Promise<void> {
    return this.#watched.poll();
  }

  /** Returns the update that writes a note as part of a claim. */
  write(instance: string, body: unknown, bytes: Uint8Array = NO_BYTES): Update<never> {
    const id = this.#deps.newId();
    const [first, ...also] = noteWrites(instance, id, body, splitChunks(bytes));
    const { key, value, expireInMs } = first;
    return { key, bytes: bytes.length, next: () => ({ value, expireInMs, also }) };
  }

  /** Returns the writes of a note without bytes, for another commit. */
  writesOf(instance: string, body: unknown): readonly Write[] {
    return noteWrites(instance, this.#deps.newId(), body, []);
  }

  /**
   * Writes a note in a commit of its own.
   *
   * @throws {StoreUnavailable}
   */
  async send(instance: string, body: unknown): Promise<void> {
    const operation = this.#deps.kv.atomic();
    for (const write of this.writesOf(instance, body)) addWrite(operation, write);
    await operation.commit();
  }

  async #read(): Promise<void> {
    const { kv } = this.#deps;
    const inbox = { prefix: KEYS.inbox(this.instance) };
    for (;;) {
      const notes = await Array.fromAsync(kv.list<StoredInstanceMessage>(inbox, { limit: NOTES_AT_ONCE }));
      if (notes.length === 0) return;
      const operation = kv.atomic();
      const bytes = await Promise.all(notes.map(({ key, value: { parts } }) => {
        const id = String(key.at(-1));
        operation.delete(key);
        for (let i = 0; i < parts; i++) operation.delete(KEYS.inboxPart(this.instance, id, i));
        return this.#readParts(id, parts);
      }));
      await operation.commit();
      notes.forEach(({ value }, i) => this.onNote(value.body, bytes[i] ?? NO_BYTES));
    }
  }

  async #readParts(id: string, parts: number): Promise<Uint8Array> {
    const read: Uint8Array[] = [];
    for (let i = 0; i < parts; i++) {
      const { value } = await this.#deps.kv.get<Uint8Array>(KEYS.inboxPart(this.instance, id, i));
      if (value) read.push(value);
    }
    return concatChunks(read);
  }
}

type SetWrite = Exclude<Write, { delete: true }>;

/** The note first, then its parts and the wake key of its receiver. */
function noteWrites(instance: string, id: string, body: unknown, parts: Uint8Array[]): [SetWrite, ...SetWrite[]] {
  const value: StoredInstanceMessage = { body, parts: parts.length };
  const expireInMs = NOTE_KEPT_MS;
  return [
    { key: KEYS.inboxNote(instance, id), value, expireInMs },
    ...parts.map((part, i) => ({ key: KEYS.inboxPart(instance, id, i), value: part, expireInMs })),
    { key: KEYS.instanceBell(instance), value: id, expireInMs },
  ];
}
