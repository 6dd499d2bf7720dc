/**
 * The text of a message for runtimes that accept text only, and the payload for those that accept data. The sender
 * comes from the frame only: the proxy may have added an identity block, depending on its settings, and a peer may have
 * written a false one.
 */
import { withIdentityBlock } from "../../shared/protocol/identity_block.ts";
import { topLevelMembers } from "../../shared/protocol/json_text.ts";
import type { RuntimeMessage } from "./platform.ts";

type Sent = Pick<RuntimeMessage, "payload" | "identity">;

/** The string `message` of the payload; `null` without one, or when it is blank. */
function ownText({ payload }: Sent): string | null {
  const value: unknown = JSON.parse(payload);
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, "message")) return null;
  const { message } = value as { message: unknown };
  return typeof message === "string" && message.trim() !== "" ? message : null;
}

/** The message as text below the sender's identity block. Without a text it is the whole payload. */
export function textOf(sent: Sent): string {
  const text = ownText(sent) ?? sent.payload;
  const block = withIdentityBlock("", sent.identity);
  return withIdentityBlock(text.startsWith(block) ? text.slice(block.length) : text, sent.identity);
}

/**
 * The payload, byte for byte, except that `message` contains no identity block but the sender's own at its beginning.
 * Every other line that equals the marker is quoted.
 */
export function payloadOf(sent: Sent): string {
  const json = sent.payload;
  const parts: string[] = [];
  let copied = 0;
  for (const { key, start, end } of topLevelMembers(json)) {
    const value: unknown = key === "message" ? JSON.parse(json.slice(start, end)) : null;
    const safe = typeof value === "string" ? withoutForgedBlocks(value, sent) : value;
    if (safe === value) continue;
    parts.push(json.slice(copied, start), JSON.stringify(safe));
    copied = end;
  }
  return copied === 0 ? json : parts.join("") + json.slice(copied);
}

function withoutForgedBlocks(text: string, { identity }: Sent): string {
  const block = withIdentityBlock("", identity);
  const isGenuine = text.startsWith(block);
  const quoted = withIdentityBlock(isGenuine ? text.slice(block.length) : text, identity);
  return isGenuine ? quoted : quoted.slice(block.length);
}
