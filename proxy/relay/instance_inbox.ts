/**
 * Notes between proxy instances on one store. A note is stored in the inbox of its receiver, and the same commit
 * changes the receiver's wake key, which the receiver watches. A note is handled before its deletion is stored: over a
 * network that saves a round trip, and an instance that ends never reads its inbox again. Does not know what notes mean.
 */
import type { Kv } from "../../shared/server/kv.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { StoredInstanceMessage } from "../schema/records.ts";
import type { Clock } from "../../shared/clock.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import type { Log } from "../../shared/server/log.ts";
import { concatChunks, splitChunks } from "../../shared/server/store/chunks.ts";
import { absent, addWrite, type Update, type Write } from "../../shared/server/store/group_commit.ts";
import { WatchedKey } from "../../shared/server/store/watched_key.ts";

/** Handles a note. Called in the order in which the notes were written. */
export type Receive = (body: unknown, bytes: Uint8Array) => void;

interface InboxDeps {
  kv: Kv;
  clock: Clock;
  newId: NewId;
  log: Log;
  /** ID of this instance. */
  instance: string;
}

const NOTE_KEPT_MS = 60_000;
/** Notes read from the inbox in one commit: a commit may hold 1,000 deletions, and a note has at most 13 parts. */
const NOTES_AT_ONCE = 50;
/** Bytes that a note holds itself, which saves the read of its parts. A value has room for 64 KiB, of which the body needs some. */
const INLINE_MAX = 56 * 1024;
const NO_BYTES = new Uint8Array();

export class InstanceInbox {
  /** Called for each note. */
  onNote: Receive = () => {};
  readonly #deps: InboxDeps;
  readonly #watched: WatchedKey;
  #isStarted = false;
  /** IDs of handled notes that may still be in the store. */
  #handled = new Set<string>();
  /** The newest deletion: whether it succeeded. */
  #removal = Promise.resolve(true);

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
    await this.catchUp();
    await this.#removal;
  }

  /** Reads the notes that were written before the call. Never rejects. */
  catchUp(): Promise<void> {
    return this.#watched.onChange();
  }

  /** Reads the inbox. Never rejects. */
  poll(): Promise<void> {
    return this.#watched.poll();
  }

  /** Returns the update that writes a note as part of a claim. */
  write(instance: string, body: unknown, bytes: Uint8Array = NO_BYTES): Update<never> {
    const id = this.#deps.newId();
    const [first, ...also] = noteWrites(instance, id, body, bytes);
    const { key, value, expireInMs } = first;
    return { key, seen: absent(key), uncached: true, bytes: bytes.length, next: () => ({ value, expireInMs, also }) };
  }

  /** Returns the writes of a note without bytes, for another commit. */
  writesOf(instance: string, body: unknown): readonly Write[] {
    return noteWrites(instance, this.#deps.newId(), body, NO_BYTES);
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
    const inbox = { prefix: KEYS.inbox(this.instance) };
    for (;;) {
      const notes = await Array.fromAsync(this.#deps.kv.list<StoredInstanceMessage>(inbox, { limit: NOTES_AT_ONCE }));
      const isAll = notes.length < NOTES_AT_ONCE;
      const present = notes.map(({ key, value }) => ({ id: String(key.at(-1)), ...value }));
      const isNew = ({ id }: { id: string }) => !this.#handled.has(id);
      const read = await Promise.all(
        present.filter(isNew).map(async (note) => ({ ...note, bytes: await this.#readParts(note) })),
      );
      // A handled note that is not in the store cannot come again.
      if (isAll) this.#handled = new Set(present.map(({ id }) => id).filter((id) => this.#handled.has(id)));
      for (const { id, body, bytes } of read) {
        this.#handled.add(id);
        this.onNote(body, bytes);
      }
      if (present.length > 0) this.#removal = this.#remove(present);
      // A note that is written after the list began changes the wake key again.
      if (isAll) return;
      if (!(await this.#removal)) return;
    }
  }

  /** Deletes notes. Returns false after a failure: they are deleted after the next read. */
  async #remove(notes: readonly { id: string; parts: number }[]): Promise<boolean> {
    const operation = this.#deps.kv.atomic();
    for (const { id, parts } of notes) {
      operation.delete(KEYS.inboxNote(this.instance, id));
      for (let i = 0; i < parts; i++) operation.delete(KEYS.inboxPart(this.instance, id, i));
    }
    try {
      return (await operation.commit()).ok;
    } catch (cause) {
      this.#deps.log("warn", "inbox_look_failed", { cause });
      return false;
    }
  }

  async #readParts({ id, bytes, parts }: StoredInstanceMessage & { id: string }): Promise<Uint8Array> {
    if (bytes) return bytes;
    const keys = Array.from({ length: parts }, (_, i) => KEYS.inboxPart(this.instance, id, i));
    const entries = await Promise.all(keys.map((key) => this.#deps.kv.get<Uint8Array>(key)));
    return concatChunks(entries.flatMap(({ value }) => value ?? []));
  }
}

type SetWrite = Exclude<Write, { delete: true }>;

/** The note first, then its parts and the wake key of its receiver. */
function noteWrites(instance: string, id: string, body: unknown, bytes: Uint8Array): [SetWrite, ...SetWrite[]] {
  const isInline = bytes.length > 0 && bytes.length <= INLINE_MAX;
  const parts = isInline ? [] : splitChunks(bytes);
  const value: StoredInstanceMessage = { body, ...isInline ? { bytes } : {}, parts: parts.length };
  const expireInMs = NOTE_KEPT_MS;
  return [
    { key: KEYS.inboxNote(instance, id), value, expireInMs },
    ...parts.map((part, i) => ({ key: KEYS.inboxPart(instance, id, i), value: part, expireInMs })),
    { key: KEYS.instanceBell(instance), value: id, expireInMs },
  ];
}
