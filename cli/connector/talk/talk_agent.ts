/** An agent on a terminal, and what a terminal asks of its local API. */
import { call, get, type LocalCalls } from "../../../shared/client/local_client.ts";
import { LocalMessage, LocalPeers, SentPage } from "../../../shared/client/local_shapes.ts";
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

/** The number of a sent message; `null` while it has no row. */
export async function rowOf({ calls }: TalkAgent, requestId: string, did: string): Promise<number | null> {
  const query = new URLSearchParams({ limit: "20", to: did });
  const page = await call(calls, SentPage, get(`/v1/sent?${query}`)).catch(() => null);
  return page?.messages.find((message) => message.requestId === requestId)?.seq ?? null;
}

/** When a peer was online last, ISO 8601; `null` while it is, and for one that hides it. */
export async function lastSeenOf({ calls }: TalkAgent, did: string): Promise<string | null> {
  const found = await call(calls, LocalPeers, get("/v1/peers")).catch(() => null);
  const peer = found?.peers.find(({ agentDid }) => agentDid === did);
  return peer?.online === false ? peer.lastSeenAt : null;
}

export function messageOf({ calls }: TalkAgent, id: number): Promise<LocalMessage> {
  return call(calls, LocalMessage, get(`/v1/inbox/${id}`));
}

/** Unread messages of agents that read them. */
export function unreadOf(agents: readonly TalkAgent[]): number {
  return agents.reduce((sum, agent) => {
    const status = agent.status();
    return sum + (status?.runtime.url === null ? status.inbox.waiting : 0);
  }, 0);
}
