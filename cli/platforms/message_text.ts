/** The text of a message, for runtimes that take text and nothing else. */
import { withIdentityBlock } from "../../shared/protocol/identity_block.ts";
import type { RuntimeMessage } from "./platform.ts";

/** The string `message` of the payload, when there is one that says anything. */
function ownText({ payload }: Pick<RuntimeMessage, "payload">): string | null {
  const value: unknown = JSON.parse(payload);
  if (typeof value !== "object" || value === null || !("message" in value)) return null;
  const { message } = value;
  return typeof message === "string" && message.trim() !== "" ? message : null;
}

/** The message as text; a payload without one is shown whole, below the sender's identity, which nobody put there yet. */
export function textOf(message: RuntimeMessage): string {
  return ownText(message) ?? withIdentityBlock(message.payload, message.identity);
}
