/**
 * Notes between proxy instances on one store. A note is stored in the inbox of its receiver, and the same commit
 * changes the receiver's wake key, which the receiver watches.
 *
 * Two round trips are saved. A note without content is also the value of the wake key, so the receiver handles it
 * before it reads its inbox. And a note is handled before its deletion is stored. Even after a crash in between, no
 * note is handled twice, because a new process has a new ID and a new inbox.
 */
import { KEYS } from "../schema/kv_keys.ts";
import type { StoredInstanceMessage } from "../schema/records.ts";
import { joinedBytes } from "../../shared/protocol/base64url.ts";
import { splitChunks } from "../../shared/server/store/stored_bytes.ts";
import { absent, type Update, type Write } from "../../shared/server/store/batch.ts";
import { WatchedKey } from "../../shared/server/store/watched_key.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";

interface InboxDeps extends Pick<ServiceDeps, "kv" | "clock" | "log" | "newId"> {
  instance: string;
}

const NOTE_KEPT_MS = 60_000;
/** How many notes one commit deletes. With their at most 13 parts these are 700 deletions, and a commit holds 1,000. */
const NOTES_AT_ONCE = 50;
/**
 * Bytes that a note holds itself, so that no parts must be read. With more, bytes and body would exceed 64 KiB, the
 * largest value of the store.
 */
const INLINE_MAX = 56 * 1024;
const NO_BYTES: Uint8Array = new Uint8Array();

export class InstanceInbox {
  /** Called for each note. Notes with content come in the order in which they were written. */
  onNote: (body: unknown, bytes: Uint8Array) => void = () => {};
  readonly instance: string;
  readonly #watched: WatchedKey;
  #isStarted = false;
  /** IDs of handled notes that may still be in the store. */
  readonly #handled = new Set<string>();
  /** IDs of notes that are being deleted, and the newest deletion. */
  readonly #leaving = new Set<string>();
  #removal = Promise.resolve();

  constructor(private readonly deps: InboxDeps) {
    this.instance = deps.instance;
    this.#watched = new WatchedKey(deps, {
      key: KEYS.instanceBell(deps.instance),
      handler: () => this.#read(),
      onValue: (value) => {
        const { id, body } = value as WakeValue;
        if (body !== undefined) this.#handleOne(id, body);
      },
      failureEvents: { poll: "inbox_look_failed", watch: "bus_watch_failed" },
    });
  }

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

  /** Returns the update that writes a note as part of a claim. */
  write(instance: string, body: unknown, bytes: Uint8Array = NO_BYTES): Update<never> {
    const id = this.deps.newId();
    const [first, ...also] = noteWrites(instance, id, body, bytes);
    const { key, value, expireInMs } = first;
    return { key, seen: absent(key), uncached: true, bytes: bytes.length, next: () => ({ value, expireInMs, also }) };
  }

  /** Returns the writes of a note without bytes, for another commit. */
  writesOf(instance: string, body: unknown): readonly Write[] {
    return noteWrites(instance, this.deps.newId(), body, NO_BYTES);
  }

  /** Handles a note once, because it may be in both the wake key and the inbox. */
  #handleOne(id: string, body: unknown, bytes = NO_BYTES): void {
    if (this.#handled.has(id)) return;
    this.#handled.add(id);
    this.onNote(body, bytes);
  }

  /** Reads the notes in batches, each while the last one is deleted. */
  async #read(): Promise<void> {
    const before = [...this.#handled], present = new Set<string>();
    const inbox = this.deps.kv.list<StoredInstanceMessage>({ prefix: KEYS.inbox(this.instance) }, {
      batchSize: NOTES_AT_ONCE,
    });
    let together: StoredNote[] = [];
    for await (const { key, value } of inbox) {
      const id = String(key.at(-1));
      present.add(id);
      if (together.push({ id, ...value }) < NOTES_AT_ONCE) continue;
      await this.#handle(together);
      together = [];
    }
    await this.#handle(together);
    // An ID whose note has left the store cannot come again. If such IDs stayed, the set would grow without an end.
    for (const id of before) if (!present.has(id)) this.#handled.delete(id);
  }

  async #handle(notes: readonly StoredNote[]): Promise<void> {
    if (notes.length === 0) return;
    const isNew = ({ id }: StoredNote) => !this.#handled.has(id);
    const read = await Promise.all(
      notes.filter(isNew).map(async (note) => ({ ...note, bytes: await this.#bytesOf(note) })),
    );
    for (const { id, body, bytes } of read) this.#handleOne(id, body, bytes);
    this.#removal = this.#remove(notes.filter(({ id }) => !this.#leaving.has(id)), this.#removal);
  }

  /** Deletes notes. If that fails, they are deleted after the next read. */
  async #remove(notes: readonly StoredNote[], before: Promise<void>): Promise<void> {
    const operation = this.deps.kv.atomic();
    for (const { id, parts } of notes) {
      this.#leaving.add(id);
      operation.delete(KEYS.inboxNote(this.instance, id));
      for (let i = 0; i < parts; i++) operation.delete(KEYS.inboxPart(this.instance, id, i));
    }
    if (notes.length > 0) {
      await operation.commit().catch((cause) => this.deps.log("warn", "inbox_look_failed", { cause }));
    }
    for (const { id } of notes) this.#leaving.delete(id);
    await before;
  }

  async #bytesOf({ id, bytes, parts }: StoredNote): Promise<Uint8Array> {
    if (bytes) return bytes;
    const keys = Array.from({ length: parts }, (_, i) => KEYS.inboxPart(this.instance, id, i));
    const entries = await Promise.all(keys.map((key) => this.deps.kv.get<Uint8Array>(key)));
    return joinedBytes(entries.flatMap(({ value }) => value ?? []));
  }
}

type StoredNote = StoredInstanceMessage & { id: string };
type SetWrite = Exclude<Write, { delete: true }>;

/** The value of a wake key: the newest note, without its body when the note has content. */
interface WakeValue {
  id: string;
  body?: unknown;
}

/** Returns the writes of a note: first the note itself, then its parts and the wake key of its receiver. */
function noteWrites(instance: string, id: string, body: unknown, bytes: Uint8Array): [SetWrite, ...SetWrite[]] {
  const isInline = bytes.length > 0 && bytes.length <= INLINE_MAX;
  const parts = isInline ? [] : splitChunks(bytes);
  const value: StoredInstanceMessage = { body, ...isInline ? { bytes } : {}, parts: parts.length };
  const expireInMs = NOTE_KEPT_MS;
  return [
    { key: KEYS.inboxNote(instance, id), value, expireInMs },
    ...parts.map((part, i) => ({ key: KEYS.inboxPart(instance, id, i), value: part, expireInMs })),
    {
      key: KEYS.instanceBell(instance),
      value: (bytes.length === 0 ? { id, body } : { id }) satisfies WakeValue,
      expireInMs,
    },
  ];
}
