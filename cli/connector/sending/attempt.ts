/** What the answer to a message means for another attempt at it (D-305). */
import { RECEIPT_MAX_MS, receiptWait } from "../../../shared/client/backoff.ts";
import { UnreachableError } from "../../../shared/client/errors.ts";
import { apiErrorOf, type HttpResponse, wholeSeconds } from "../../../shared/client/http.ts";
import { describeError, remedyOf } from "../../../shared/client/refusals.ts";
import type { StateChange } from "../store/sent_messages.ts";

/** Statuses that end a message, because another attempt would get the same. */
const FINAL: ReadonlySet<number> = new Set([400, 401, 403, 409, 413]);
/** Statuses that concern every message. The others concern the recipient, so messages to other peers go on. */
const OF_ALL: ReadonlySet<number> = new Set([401, 429, 503]);

/** The result of an attempt: `later`: the message may be tried again. */
export type Attempt =
  | { later: false; outcome: StateChange; response: HttpResponse }
  | { later: true; problem: string; mayHaveArrived: boolean; waitMs: number; isOfAll: boolean };

/** Returns the result of one more request for a message, `attempts` of which have failed before. */
export async function attempt(
  request: Promise<{ response: HttpResponse; outcome: StateChange }>,
  attempts: number,
): Promise<Attempt> {
  const postponed = (problem: string, mayHaveArrived: boolean, isOfAll: boolean, askedMs = 0): Attempt => {
    const waitMs = Math.min(Math.max(receiptWait(attempts + 1), askedMs), RECEIPT_MAX_MS);
    return { later: true, problem, mayHaveArrived, isOfAll, waitMs };
  };
  try {
    const { response, outcome } = await request;
    const { status, headers } = response;
    // The session could not be renewed, which says nothing about the message.
    const isOfSession = remedyOf(apiErrorOf(response)) === "renew_access";
    if (status < 300 || FINAL.has(status) && !isOfSession) return { later: false, outcome, response };
    const askedMs = (wholeSeconds(headers.get("Retry-After")) ?? 0) * 1000;
    const problem = status === 429 ? withLimit(outcome.problem ?? null, headers) : outcome.problem;
    return postponed(problem ?? `status ${status}`, outcome.state === "unknown", OF_ALL.has(status), askedMs);
  } catch (error) {
    return postponed(describeError(error), !(error instanceof UnreachableError) || error.mayHaveArrived, true);
  }
}

/**
 * Adds how many messages the server takes, for the person who reads why a message waits. Only numbers of the answer are shown,
 * because a server of others could write anything else into a line of svc.
 */
function withLimit(code: string | null, headers: Headers): string | null {
  const found = /^"(\w{1,20})";q=(\d{1,9});w=(\d{1,6})$/.exec(headers.get("RateLimit-Policy") ?? "");
  if (code === null || found === null) return code;
  const [, name, requests, seconds] = found;
  const many = Number(requests).toLocaleString("en-GB");
  const time = seconds === "60" ? "a minute" : `in ${seconds} s`;
  const limit = name === "owner" ? `${many} ${time} from all your agents` : `${many} messages ${time}`;
  return `${code}: more than ${limit}`;
}
