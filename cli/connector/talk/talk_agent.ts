/** An agent on a terminal. */
import type { LocalCalls } from "../../../shared/client/local_client.ts";
import type { Peers } from "../peers/peers.ts";
import type { Status } from "../status.ts";

export interface TalkAgent {
  name: string;
  humanName: string;
  calls: LocalCalls;
  peers(): Peers;
  /** The peers whose pairs have ended. */
  ended(): Peers;
  /** The alias of the peer whose place a new one may take; `null` for none. */
  perhapsReplaced(did: string): string | null;
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
