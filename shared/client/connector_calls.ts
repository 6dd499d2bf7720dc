/**
 * What `LocalAgent` does with its connector. It is not in that class, because the type declarations of the published
 * package would then name modules that the package does not contain.
 */
import { type Clock, sleep, timeLeft } from "../clock.ts";
import type { IncomingMessage } from "./agent_api.ts";
import { RETRY_FIRST_MS } from "./backoff.ts";
import type { AgentDirectory } from "./directory_store.ts";
import { LocalDown } from "./errors.ts";
import { messageOfLocal } from "./inbox_reader.ts";
import { isOver, type LocalCalls, LocalClient, readMessages, sendAndWait, type WaitedMessage } from "./local_client.ts";
import type { OutboundResult } from "./local_shapes.ts";
import { asSvcError, SvcError } from "./svc_error.ts";
import { type ClientSystem, leavesMachine } from "./system.ts";

/** Turns an error of the local API into a `SvcError`, the only error with which the methods of `LocalAgent` reject. */
export async function orSvcError<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw asSvcError(error);
  }
}

/**
 * Returns the client of the connector whose discovery file is in the agent's folder.
 *
 * @param closed ends every request
 */
export function localClient(system: ClientSystem, directory: AgentDirectory, closed: AbortSignal): LocalClient {
  const { fetch, clock } = system;
  const find = async () => {
    if (leavesMachine(system)) {
      const what = "HTTP_PROXY is set, and would get the token of the local API";
      throw new SvcError("CLI_USAGE", `${what}: add 127.0.0.1 to NO_PROXY`);
    }
    const file = await directory.connectorFile();
    try {
      return file !== null && system.isRunning(file.pid) ? file : null;
    } catch (cause) {
      throw new LocalDown(directory.name, "may run, but Deno needs --allow-run and --allow-sys=uid to find out", {
        cause,
      });
    }
  };
  const isOfOtherUser = ({ url }: { url: string }) => system.isOfOtherUser(url);
  return new LocalClient(directory.name, { fetch, clock, find, isOfOtherUser, closed });
}

/**
 * Sends a message and returns its first reply, which it marks as read.
 *
 * @param closed ends the wait; it must also end the requests of `local`
 * @throws {SvcError} `NO_REPLY` when there is none in time; the error of the connector or the proxy
 */
export async function askThrough(
  local: LocalCalls,
  clock: Clock,
  question: Pick<WaitedMessage, "members" | "payload">,
  timeoutMs: number,
  closed: AbortSignal,
): Promise<IncomingMessage> {
  const message = { ...question, waitSeconds: timeoutMs / 1000, obeysRetryAfter: true, signal: closed };
  const left = timeLeft(clock, timeoutMs);
  const { result } = await orSvcError(sendAndWait(local, clock, message)).catch((error) => {
    throw closed.aborted ? noReply({ ...question.members, state: "unknown" }, CLOSED) : error;
  });
  const { reply, problem } = result;
  if (reply === null) {
    const late = closed.aborted ? CLOSED : "none came in time";
    throw noReply(result, isOver(result) ? problem ?? "the recipient gave up on it" : late);
  }
  // Only the program that marked the reply as read may return it, because another one would otherwise act on it too.
  for (let wasSent = false;;) {
    try {
      const isRead = (await readMessages(local, { ids: [reply.id] })).length > 0;
      // After a request without an answer, this program may have marked it, and no other one would return it then.
      if (isRead || wasSent) return messageOfLocal(reply);
      throw noReply(result, "another program took the reply");
    } catch (error) {
      if (!(error instanceof LocalDown)) throw asSvcError(error);
      wasSent ||= error.wasSent;
      if (left() === 0 || closed.aborted) {
        if (wasSent) return messageOfLocal(reply);
        throw asSvcError(error);
      }
      await sleep(clock, Math.min(RETRY_FIRST_MS, left()), closed);
    }
  }
}

const CLOSED = "the agent was closed";

function noReply({ requestId, state }: Pick<OutboundResult, "requestId" | "state">, why: string): SvcError {
  return new SvcError("NO_REPLY", `No reply to the message (state ${state}): ${why}`, { requestId });
}
