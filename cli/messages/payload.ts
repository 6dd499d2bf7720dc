/** The payload of a message from the command line: a text, a file, standard input or JSON (D-120). */
import { CLIENT_LIMITS } from "../../shared/client/limits.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { reason } from "../files/private_files.ts";

/** What a person gave; one of the three at most. */
export interface Given {
  /** The text; `-` reads standard input. */
  text?: string | undefined;
  /** JSON; `-` reads standard input. */
  data?: string | undefined;
  /** Path of a file with the text. */
  file?: string | undefined;
}

const { payloadBytes } = CLIENT_LIMITS;
/** No larger text fits into a payload, which has at least as many bytes. */
const READ_BYTES = payloadBytes + 1;

/**
 * Returns the payload as JSON text: `{"message": text}`, or the JSON of `data` unchanged. Without a text, standard input is
 * the text when it is not a terminal.
 *
 * @throws {CliError} `CLI_USAGE`, `PAYLOAD_TOO_LARGE`
 */
export async function payloadOf(ctx: Context, given: Given): Promise<string> {
  const payload = given.data === undefined
    ? JSON.stringify({ message: await textOf(ctx, given) })
    : await jsonOf(ctx, given, given.data);
  const { length } = utf8Bytes(payload);
  if (length > payloadBytes) throw tooLarge(`${length}`);
  return payload;
}

async function textOf(ctx: Context, { text, file }: Given): Promise<string> {
  if (text !== undefined && file !== undefined) throw new CliError("CLI_USAGE", "Give either a text or --file");
  const isPiped = text === undefined && file === undefined && !ctx.stdinIsTerminal;
  const found = file !== undefined
    ? decoded(await fileBytes(file), file)
    : text === "-" || isPiped
    ? decoded(await ctx.stdin(READ_BYTES), "Standard input")
    : text;
  if (found === undefined) {
    throw new CliError("CLI_USAGE", "The text is missing: give it, or --file, or --data, or pipe it to standard input");
  }
  if (found.trim() === "") throw new CliError("CLI_USAGE", "The text is empty");
  return found;
}

async function jsonOf(ctx: Context, { text, file }: Given, data: string): Promise<string> {
  if (text !== undefined || file !== undefined) throw new CliError("CLI_USAGE", "Give either a text or --data");
  const json = data === "-" ? decoded(await ctx.stdin(READ_BYTES), "Standard input") : data;
  try {
    JSON.parse(json);
  } catch {
    throw new CliError("CLI_USAGE", "--data is not JSON");
  }
  return json.trim();
}

function decoded(bytes: Uint8Array, what: string): string {
  if (bytes.length >= READ_BYTES) throw tooLarge(`at least ${bytes.length}`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new CliError("CLI_USAGE", `${what} is not UTF-8 text`);
  }
}

/** The bytes of a file, at most `READ_BYTES` of them. */
async function fileBytes(path: string): Promise<Uint8Array> {
  const buffer = new Uint8Array(READ_BYTES);
  let length = 0;
  try {
    using file = await Deno.open(path);
    for (let read: number | null = 0; read !== null && length < READ_BYTES; length += read ?? 0) {
      read = await file.read(buffer.subarray(length));
    }
  } catch (error) {
    throw new CliError("CLI_USAGE", `${path} cannot be read: ${reason(error)}`, { cause: error });
  }
  return buffer.subarray(0, length);
}

function tooLarge(length: string): CliError {
  return new CliError("PAYLOAD_TOO_LARGE", `The payload has ${length} bytes; at most ${payloadBytes} are allowed`);
}
