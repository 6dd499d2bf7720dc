/** Reads a file that a person names, or standard input, up to a bound. */
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";

/** @param path `-` for standard input @throws {CliError} `CLI_USAGE` when it cannot be read or is larger */
export async function readGiven(ctx: Context, path: string, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = path === "-" ? await ctx.stdin(maxBytes + 1) : await readAtMost(path, maxBytes + 1);
  } catch {
    throw new CliError("CLI_USAGE", `${path} cannot be read`);
  }
  if (bytes.length > maxBytes) throw new CliError("CLI_USAGE", `${path} is over ${maxBytes} bytes`);
  return bytes;
}

async function readAtMost(path: string, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  using file = await Deno.open(path);
  const bytes = new Uint8Array(maxBytes);
  let length = 0;
  while (length < maxBytes) {
    const read = await file.read(bytes.subarray(length));
    if (read === null) break;
    length += read;
  }
  return bytes.slice(0, length);
}
