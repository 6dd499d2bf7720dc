/** A folder of private files. Each file is checked when read and replaced atomically when written. */
import { join } from "node:path";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { readPrivate, removeFile, writePrivate } from "./private_files.ts";

/** Maximum size of a file in the folder, in bytes. */
const MAX_BYTES = 64 * 1024;

export class PrivateFolder {
  constructor(protected readonly ctx: Context, readonly path: string) {}

  /** Returns the text of a file, or `null` when it does not exist. */
  read(file: string, maxBytes = MAX_BYTES): string | null {
    return readPrivate(join(this.path, file), maxBytes);
  }

  /** Replaces a file. @throws {CliError} `CLI_SAVE_FAILED`, also for a text that is too large to be read again */
  async write(file: string, text: string, maxBytes = MAX_BYTES): Promise<void> {
    const path = join(this.path, file);
    if (utf8Bytes(text).length >= maxBytes) {
      throw new CliError("CLI_SAVE_FAILED", `${path} would be larger than ${maxBytes} bytes`, { fix: "" });
    }
    await writePrivate(this.ctx.random, path, `${text}\n`);
  }

  async writeJson(file: string, value: object, maxBytes = MAX_BYTES): Promise<void> {
    await this.write(file, JSON.stringify(value, null, 2), maxBytes);
  }

  async remove(file: string): Promise<void> {
    await removeFile(join(this.path, file));
  }
}
