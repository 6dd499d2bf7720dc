/** The columns of a list of peers, on a terminal and in its view. */
import type { LocalPeer } from "../../../shared/client/local_shapes.ts";
import { type Column, timeCell } from "../../terminal/tables.ts";
import { durationText } from "../../terminal/times.ts";

const MINUTE_MS = 60_000;

/** Says of a message, and of a contact, that nothing is sealed, because no ticket has proven the key of the peer. */
export const READABLE = "readable by the server";

/** @param hasTimes false when the times of the last messages are not known, because no connector runs */
export function peerColumns(now: number, hasTimes = true): Column<LocalPeer>[] {
  const lastMessage: Column<LocalPeer> = {
    head: "LAST MESSAGE",
    rank: 3,
    of: ({ lastMessageAt }) => timeCell(lastMessageAt, now),
  };
  return [
    { head: "PEER", of: ({ alias }) => alias },
    { head: "AGENT OF", rank: 2, of: ({ humanName }) => humanName },
    { head: "STATE", rank: 1, of: (peer) => presenceText(peer, now) },
    { head: "MESSAGES", rank: 4, of: ({ how }) => how === "ticket" ? "end-to-end" : READABLE },
    ...hasTimes ? [lastMessage] : [],
    { head: "PAIRED", isWide: true, of: ({ pairedAt }) => pairedAt },
    { head: "DID", isWide: true, of: ({ agentDid }) => agentDid },
  ];
}

/**
 * Whether a peer is connected, for a person; `null` when it hides that, and for a peer of which nothing is known. Of a
 * peer elsewhere, why its server could not be called.
 */
export function presenceText(peer: LocalPeer | undefined, now: number): string | null {
  if (peer === undefined) return null;
  const { blocked, online, lastSeenAt, proxyProblem = null } = peer;
  if (blocked) return "blocked";
  if (online === null) return proxyProblem;
  if (online) return "online";
  if (lastSeenAt === null) return "offline";
  // The proxy tells it to the minute, so seconds would be wrong.
  return `offline since ${durationText(Math.max(MINUTE_MS, now - Date.parse(lastSeenAt)))}`;
}
