/**
 * The body of the newest message that a command sealed without a connector (D-152). Each seal is another text, so without it the
 * same message under its request ID, which is what a person sends when the answer was lost, would be refused as another one.
 */
import * as z from "zod";
import { sha256 } from "../../shared/protocol/base64url.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";

const FILE = "last_sealed.json";
/** The largest sealed body and its head fit. */
const MAX_BYTES = 300 * 1024;

const LastSealed = z.object({
  /** Digest of what the body was made of. */
  of: z.string(),
  /** Milliseconds since the Unix epoch. */
  at: z.number(),
  body: z.string(),
});

/**
 * Returns the sealed body of a message: of the same message within a day the same one, else that of `seal`.
 *
 * @param parts what the body depends on
 */
export async function sealedOnce(
  { clock }: Pick<Context, "clock">,
  folder: AgentFolder,
  parts: readonly string[],
  seal: () => Promise<string>,
): Promise<string> {
  const of = await sha256(JSON.stringify(parts)), now = clock.now();
  const last = read(folder);
  // The proxy takes the ID for a new message after a day. A time ahead is of a clock that was set back.
  if (last?.of === of && last.at <= now && now < last.at + CONNECTOR_LIMITS.seenKeptMs) return last.body;
  const body = await seal();
  try {
    await folder.writeJson(FILE, { of, at: now, body }, MAX_BYTES);
  } catch (error) {
    // A folder that is read only, or a full disk, must not keep a message back: only its repeat is refused then.
    if (!(error instanceof CliError)) throw error;
  }
  return body;
}

/** A file that cannot be read is like none: the message is then sealed again. */
function read(folder: AgentFolder): z.infer<typeof LastSealed> | null {
  try {
    return LastSealed.safeParse(JSON.parse(folder.read(FILE, MAX_BYTES) ?? "null")).data ?? null;
  } catch (error) {
    if (error instanceof CliError || error instanceof SyntaxError) return null;
    throw error;
  }
}
