/** A folder of private files (D-81): each one is checked when it is read and replaced in one step when it is written. */
import { join } from "node:path";
import type { Context } from "./context.ts";
import { readPrivate, removeFile, writePrivate } from "./files.ts";

const MAX_BYTES = 64 * 1024;

export class PrivateFolder {
  constructor(protected readonly ctx: Context, readonly path: string) {}

  /** A file's text, or `null` when there is none. */
  read(file: string, maxBytes = MAX_BYTES): string | null {
    return readPrivate(join(this.path, file), maxBytes);
  }

  async write(file: string, text: string): Promise<void> {
    await writePrivate(this.ctx.random, join(this.path, file), `${text}\n`);
  }

  async writeJson(file: string, value: object): Promise<void> {
    await this.write(file, JSON.stringify(value, null, 2));
  }

  async remove(file: string): Promise<void> {
    await removeFile(join(this.path, file));
  }
}
