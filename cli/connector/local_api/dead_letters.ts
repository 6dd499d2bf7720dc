/** The dead letters of a running connector, as the commands of `svc` read and change them (D-121). */
import { toIso } from "../../../shared/protocol/time.ts";
import type { AgentFolder } from "../../agents/agent_store.ts";
import { shownAliases } from "../peers.ts";
import { checkedBody, type ConnectorClient } from "./client.ts";
import { DeadLetters, Purged, Replayed } from "./dead_letter_handlers.ts";

/** The newest dead letters; times are ISO 8601. `alias` is `null` when their sender is not a peer. */
export async function deadLettersOf(
  client: Pick<ConnectorClient, "call" | "callee">,
  folder: AgentFolder,
  limit: number,
) {
  const { deadLetters } = checkedBody(
    client.callee.name,
    DeadLetters,
    await client.call("GET", `/v1/dead-letter?limit=${limit}`),
  );
  const aliases = shownAliases(folder);
  return deadLetters.map(({ receivedAt, endedAt, ...rest }) => ({
    ...rest,
    alias: aliases.get(rest.fromAgentDid) ?? null,
    receivedAt: toIso(receivedAt),
    endedAt: toIso(endedAt),
  }));
}

/** Replays or purges dead letters; `null`: all of them. Returns how many were changed. */
export async function changeDeadLetters(
  client: Pick<ConnectorClient, "call" | "callee">,
  what: "replay" | "purge",
  ids: readonly number[] | null,
): Promise<number> {
  const body = await client.call("POST", `/v1/dead-letter/${what}`, ids === null ? { all: true } : { ids });
  const { name } = client.callee;
  return what === "replay" ? checkedBody(name, Replayed, body).replayed : checkedBody(name, Purged, body).purged;
}
