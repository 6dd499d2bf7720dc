/**
 * Records what svc has written into files of hosts for an agent, and keeps copies of the earlier text. A record is
 * saved before its file changes, because `--undo` would otherwise not know of a change that a kill followed.
 */
import { join } from "node:path";
import * as z from "zod";
import { type AgentFolder, AgentStore } from "../agents/agent_store.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import type { Context } from "../context.ts";
import { ensureConfigDir } from "../files/config_dir.ts";
import { ensureDirectory, isDirectory, writePrivate } from "../files/private_files.ts";
import { profileFolders } from "../files/profile.ts";

/** Copies that are kept: the first and the newest. With more, secrets of the host's file stay in old copies. */
const COPIES_MAX = 2;
/** Largest file of records, in bytes. With more, a damaged one would cost memory before it is refused. */
const RECORD_BYTES_MAX = 1024 ** 2;

const RECORD_FILE = "hosts.json";
const COPIES = "backups";

const Record = z.object({
  path: z.string(),
  /** Names of the objects from the outermost one to the entry, or to the array that holds it. */
  place: z.array(z.string()),
  /** Entries that the file may have: the newest one, and after an interrupted change the one before. */
  written: z.array(z.unknown()),
  /** Number of objects around the entry that svc has created, for whichever agent. */
  made: z.int().min(0),
  /** Whether svc has created the file. */
  isNew: z.boolean(),
  /** Names of the copies of the earlier text, oldest first. */
  copies: z.array(z.string().regex(/^[a-z0-9.-]{1,80}$/)),
});
export type Record = z.infer<typeof Record>;

export class Records {
  constructor(readonly ctx: Context, readonly folder: AgentFolder) {}

  /** Returns the record of an entry; `null` without one. @throws {CliError} `CLI_FILE_INVALID` */
  find(path: string, place: readonly string[]): Record | null {
    return this.all().find((one) => isAt(one, path, place)) ?? null;
  }

  /** Saves a record, in place of an earlier one. @throws {CliError} `CLI_SAVE_FAILED` */
  async save(record: Record): Promise<void> {
    await this.#write([...this.#others(record), record]);
  }

  /**
   * A name for a copy of the text before a change. The record gets the name before the copy exists, because a kill in
   * between would otherwise leave a copy that no record names.
   */
  nameOfCopy(host: string): string {
    // Partly random, because a second copy in the same millisecond would otherwise replace the first.
    return `${host}-${this.ctx.clock.now()}-${this.ctx.random.bytes(4).toHex()}.txt`;
  }

  async copy(name: string, text: string): Promise<void> {
    const owners = await ensureConfigDir(this.ctx);
    await ensureDirectory(join(this.folder.path, COPIES), owners);
    await writePrivate(this.ctx.random, join(this.folder.path, COPIES, name), text);
  }

  /** A copy; `null` when a killed process has not written it. */
  copyOf(name: string): string | null {
    return this.folder.read(join(COPIES, name), CONNECTOR_LIMITS.hostFileBytes);
  }

  /** Saves the record of a change that is complete, and removes all copies but the first and the newest. */
  async finish(record: Record): Promise<void> {
    const [first, ...later] = record.copies;
    // The first copy stays, because `--undo` restores it.
    const copies = first === undefined ? [] : [first, ...later.slice(1 - COPIES_MAX)];
    await this.save({ ...record, copies });
    await this.#removeUnknownCopies();
  }

  async remove(record: Record): Promise<void> {
    const others = this.#others(record);
    if (others.length > 0) await this.#write(others);
    else await this.folder.remove(RECORD_FILE);
    await this.#removeUnknownCopies();
  }

  /** Removes the copies that no record names, also incomplete ones of a killed process. */
  async #removeUnknownCopies(): Promise<void> {
    const known = new Set(this.all().flatMap(({ copies }) => copies));
    const folder = join(this.folder.path, COPIES);
    if (!isDirectory(folder)) return;
    for (const { name } of await Array.fromAsync(Deno.readDir(folder))) {
      if (!known.has(name)) await this.folder.remove(join(COPIES, name));
    }
  }

  #others({ path, place }: Record): Record[] {
    return this.all().filter((one) => !isAt(one, path, place));
  }

  /** All records. @throws {CliError} `CLI_FILE_INVALID` */
  all(): Record[] {
    const fix = "Remove the file; svc mcp install writes it again.";
    return this.folder.readJson(RECORD_FILE, z.array(Record), { maxBytes: RECORD_BYTES_MAX, fix }) ?? [];
  }

  /**
   * The records of all agents, of every profile, that have an entry beside this place. What one agent made goes with the
   * last of them, because the object and the file would otherwise stay behind, empty.
   */
  async beside(path: string, place: readonly string[]): Promise<Record[]> {
    const found: Record[] = [];
    for (const configDir of profileFolders(this.ctx).values()) {
      const each = await new AgentStore({ ...this.ctx, configDir }).each((one) => new Records(this.ctx, one).all());
      for (const records of each.values()) found.push(...records);
    }
    return found.filter((one) => isAt({ ...one, place: one.place.slice(0, -1) }, path, place.slice(0, -1)));
  }

  async #write(records: readonly Record[]): Promise<void> {
    await this.folder.writeJson(RECORD_FILE, [...records], RECORD_BYTES_MAX);
  }
}

function isAt(record: Record, path: string, place: readonly string[]): boolean {
  return record.path === path && record.place.join("\n") === place.join("\n");
}
