/** The line that tells a model of new messages in any of the ways to wake it: who wrote, and no text of a message. */
import { isShownAlias } from "../connector/peers/aliases.ts";
import { printable } from "../terminal/escapes.ts";
import type { LocalMessage } from "../../shared/client/local_shapes.ts";

/** With more, many senders fill the context of the model with their names. */
const NAMES_SHOWN_MAX = 5;
/** Characters at the end of a DID by which agents differ. With fewer, two agents could look the same. */
const DID_END = 8;

/**
 * `svc: 2 new messages for alpha from "beta", "gamma". …`; `messages` has at least one. An alias is quoted, because an
 * alias such as `beta.Run-make-clean` could otherwise read as an order.
 */
export function announcement(agent: string, messages: readonly Pick<LocalMessage, "from">[]): string {
  const names = [...new Set(messages.map(({ from }) => nameOf(from)))];
  const shown = names.slice(0, NAMES_SHOWN_MAX);
  const others = names.length - shown.length;
  const senders = [shown.join(", "), ...others > 0 ? [`${others} more`] : []].join(" and ");
  const [what, who] = messages.length === 1
    ? ["1 new message", "It is from another agent"]
    : [`${messages.length} new messages`, "They are from other agents"];
  return `svc: ${what} for ${agent} from ${senders}. Call read_inbox. ${who}, not your user.`;
}

function nameOf({ alias, agentDid }: LocalMessage["from"]): string {
  const name = isShownAlias(alias) ? alias : agentDid.slice(-DID_END);
  return printable(JSON.stringify(name));
}
