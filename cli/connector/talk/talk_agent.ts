/** An agent on a terminal. */
import type { LocalCalls } from "../../../shared/client/local_client.ts";
import type { Peers } from "../peers/peers.ts";
import type { Status } from "../status.ts";

export interface TalkAgent {
  name: string;
  humanName: string;
  calls: LocalCalls;
  /** Also the peers whose pairs have ended. */
  peers(): Peers;
  status(): Status | null;
  /** Opens the connector's web page. Returns the lines to show: without a browser they have its address. */
  openPage(): Promise<string[]>;
  /** Makes an invite that pairs. Returns the command for the other person; `null` when this person may not invite. */
  invite(): Promise<string | null>;
}

/** Unread messages of agents that read them. */
export function unreadOf(agents: readonly TalkAgent[]): number {
  return agents.reduce((sum, agent) => {
    const status = agent.status();
    return sum + (status?.runtime.url === null ? status.inbox.waiting : 0);
  }, 0);
}
