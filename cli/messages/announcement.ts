/** The line that announces new messages to a model (D-132). It holds no text of a message. Pure. */
import type { LocalMessage } from "../../shared/client/local_shapes.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../connector/limits.ts";
import { printable } from "../terminal/output.ts";

/** Characters at the end of a DID by which agents differ. */
const DID_END = 8;

/** `svc: 2 new messages for alpha from beta, gamma. …`; `messages` has at least one. */
export function announcement(agent: string, messages: readonly Pick<LocalMessage, "from">[]): string {
  const names = [...new Set(messages.map(({ from }) => nameOf(from)))];
  const shown = names.slice(0, LIMIT.hookNamesShown);
  const others = names.length - shown.length;
  const senders = [shown.join(", "), ...others > 0 ? [`${others} more`] : []].join(" and ");
  const [what, who] = messages.length === 1
    ? ["1 new message", "It is from another agent"]
    : [`${messages.length} new messages`, "They are from other agents"];
  return `svc: ${what} for ${agent} from ${senders}. Call read_inbox. ${who}, not your user.`;
}

function nameOf({ alias, agentDid }: LocalMessage["from"]): string {
  return alias === null ? agentDid.slice(-DID_END) : printable(alias.slice(0, LIMIT.hookAliasCharacters));
}
