/** The dead letters of a running connector, as the commands of `svc` read and change them (D-121). */
import * as z from "zod";
import { toIso } from "../../../shared/protocol/time.ts";
import type { AgentFolder } from "../../agents/agent_store.ts";
import { shownAliases } from "../peers.ts";
import { checkedBody, type ConnectorClient } from "./client.ts";

const Listed = z.object({
  deadLetters: z.array(z.object({
    id: z.int(),
    fromAgentDid: z.string(),
    requestId: z.string(),
    conversationId: z.string().nullable(),
    payload: z.string(),
    receivedAt: z.number(),
    endedAt: z.number(),
    attempts: z.int(),
    problem: z.string(),
  })),
});
const Changed = z.union([
  z.object({ replayed: z.int() }).transform(({ replayed }) => replayed),
  z.object({ purged: z.int() }).transform(({ purged }) => purged),
]);

/** A dead letter; `payload` is JSON text, times are ISO 8601. */
export type ListedDeadLetter = Awaited<ReturnType<typeof deadLettersOf>>[number];

/** The newest dead letters. `alias` is `null` when their sender is not a peer. */
export async function deadLettersOf(
  client: Pick<ConnectorClient, "call" | "callee">,
  folder: AgentFolder,
  limit: number,
) {
  const { deadLetters } = checkedBody(
    client.callee.name,
    Listed,
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
  return checkedBody(client.callee.name, Changed, body);
}
