/** A folder of private files (D-81): each one is checked when it is read and replaced in one step when it is written. */
import { join } from "node:path";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { readPrivate, removeFile, writePrivate } from "./private_files.ts";

/** The largest file of an agent; what is larger is neither read nor written. */
const MAX_BYTES = 64 * 1024;

export class PrivateFolder {
  constructor(protected readonly ctx: Context, readonly path: string) {}

  /** A file's text, or `null` when there is none. */
  read(file: string, maxBytes = MAX_BYTES): string | null {
    return readPrivate(join(this.path, file), maxBytes);
  }

  /** Replaces a file. @throws {CliError} `CLI_SAVE_FAILED`, also for what could not be read back */
  async write(file: string, text: string, maxBytes = MAX_BYTES): Promise<void> {
    const path = join(this.path, file);
    if (utf8Bytes(text).length >= maxBytes) {
      throw new CliError("CLI_SAVE_FAILED", `${path} would be over ${maxBytes} bytes`, { fix: "" });
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
