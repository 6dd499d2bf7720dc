/** What people read of the state of a sent message: one list, so that every place says the same. */
import type { CheckedReceipt, OutboundResult, Replies } from "../../shared/client/local_shapes.ts";
import { ERRORS, isErrorCode } from "../../shared/protocol/errors.ts";
import { NO_VISIT } from "../link/agent_credentials.ts";
import { formatDuration } from "../terminal/times.ts";

/**
 * First words of the problem of a message that never left this machine. If `refused` were shown, a person would ask who
 * refused it.
 */
export const NOT_SENT = "not sent";

/** Why a message has not arrived, for the person who sent it to `peer`. */
export function problemText(problem: string, peer: string): string {
  return problem === "blocked" ? `${peer} does not accept your messages` : refusalText(problem) ?? problem;
}

/** Why the server does not take a message now, for a person; `null` when the problem is no code of a service. */
export function refusalText(problem: string): string | null {
  const [code = "", limit] = problem.split(": ");
  if (!isErrorCode(code)) return null;
  if (code !== "PROXY_RATE_LIMIT_EXCEEDED") return ERRORS[code].when;
  return limit ?? "more messages than the server takes in a minute";
}

/**
 * @param now milliseconds since the Unix epoch
 * @param peer the alias of the recipient
 * @param host of the recipient's server, when it is not the agent's own
 */
export function stateText(message: Shown, now: number, peer = "the recipient", host: string | null = null): string {
  const text = stateAlone(message, now, peer, host);
  if (message.replyError) return `${text}, no answer: ${message.replyError}`;
  return (message.replies?.length ?? 0) > 0 ? `${text}, answered` : text;
}

/** A message whose state is shown; its replies where they are known. */
type Shown =
  & Pick<OutboundResult, "state" | "problem" | "nextTryAt" | "expiresAt">
  & Partial<Replies>;

function stateAlone(message: Shown, now: number, peer: string, host: string | null): string {
  const { state, problem, nextTryAt, expiresAt } = message;
  const why = problem === null ? "" : `: ${problemText(problem, peer)}`;
  switch (state) {
    case "sending":
      return "on its way";
    case "kept": {
      const waitMs = nextTryAt === null ? 0 : Math.ceil((Date.parse(nextTryAt) - now) / 1000) * 1000;
      const waits = host === null || problem?.startsWith(NO_VISIT) ? "waits here" : `waits for ${host}`;
      return waitMs > 0 ? `${waits}, next try in ${formatDuration(waitMs)}` : waits;
    }
    case "queued":
      // A server that was restored from an older backup has lost the message, so it never says that it gave up.
      return expiresAt !== null && Date.parse(expiresAt) <= now
        ? "unclear, it waited at the server"
        : "waits at the server";
    case "delivered":
      return "arrived";
    case "processed":
      return "read";
    case "dead_lettered":
      return `not delivered${why}`;
    case "refused":
      return problem?.startsWith(NOT_SENT) ? problem : `refused${why}`;
    case "unknown":
      return "unclear";
  }
}

/** The state that receipts show, or `null`. `processed` comes first, because a replayed dead letter may have both. */
export function shownState(
  receipts: readonly Pick<CheckedReceipt, "status" | "verified">[],
  isSigning: boolean,
): "processed" | "dead_lettered" | null {
  const isProcessed = receipts.some(({ status, verified }) =>
    status === "processed_by_svc" && (verified === "signed" || !isSigning)
  );
  if (isProcessed) return "processed";
  return receipts.some(({ status }) => status === "dead_lettered") ? "dead_lettered" : null;
}
