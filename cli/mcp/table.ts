/** The tools that a model may call, in the order in which it sees them. */
import { DELIVERY_STATUS, LIST_PEERS, WHOAMI } from "./lookup_tools.ts";
import { READ_INBOX, SEND_MESSAGE, WAIT_FOR_MESSAGE } from "./message_tools.ts";
import { PAIR_CONFIRM, PAIR_START } from "./pair_tools.ts";
import type { ToolRow } from "./tool.ts";

export const TOOLS: readonly ToolRow[] = [
  WHOAMI,
  LIST_PEERS,
  SEND_MESSAGE,
  READ_INBOX,
  WAIT_FOR_MESSAGE,
  DELIVERY_STATUS,
  PAIR_START,
  PAIR_CONFIRM,
];
