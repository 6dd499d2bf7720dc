/**
 * Sends the stored replies of the runtime until the proxy has them (D-114): for each peer the oldest first. A reply ends
 * when the proxy refuses it permanently, or after 24 h.
 */
import type { Clock } from "../../../shared/clock.ts";
import { receiptWait } from "../../../shared/client/backoff.ts";
import { wholeSeconds } from "../../../shared/client/http.ts";
import { CLIENT_LIMITS } from "../../../shared/client/limits.ts";
import { describeError } from "../../../shared/client/refusals.ts";
import type { EmitEvent } from "../events.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import type { MessageSender } from "./message_sender.ts";
import { SendingLoop } from "./sending_loop.ts";
import type { SentMessage, SentMessages } from "./sent_messages.ts";

interface ReplyDeps {
  clock: Clock;
  sent: SentMessages;
  sender: Pick<MessageSender, "request">;
  tell: EmitEvent;
}

/** Statuses of a permanent refusal: another attempt would get the same. */
const FINAL: ReadonlySet<number> = new Set([400, 403, 409, 413]);
/** Statuses that concern every reply. The others concern the recipient, so replies to other peers go on. */
const OF_ALL: ReadonlySet<number> = new Set([401, 429, 503]);

export class ReplySender extends SendingLoop<SentMessage> {
  readonly #deps: ReplyDeps;

  constructor(deps: ReplyDeps) {
    const { clock, tell, sent } = deps;
    const queue = {
      due: (now: number, latest: number) => sent.dueReplies(now, latest),
      nextAt: () => sent.nextReplyAt(),
      makeAllDue: (now: number) => sent.makeRepliesDue(now),
    };
    super({ clock, tell, queue, atOnce: LIMIT.repliesAtOnce });
    this.#deps = deps;
  }

  protected override async send(reply: SentMessage): Promise<number> {
    const { clock, sent, sender } = this.#deps;
    const payload = sent.payloadOf(reply);
    if (payload === null) return this.#refuse(reply, "its content is gone");
    if (clock.now() - reply.sentAt >= LIMIT.replyPatienceMs) return this.#refuse(reply, "not sent within 24 h");
    const answered = await sender.request(reply, payload, true).catch((error: unknown) => describeError(error));
    if (typeof answered === "string") return this.#postpone(reply, answered, 0);
    const { response: { status, headers }, outcome } = answered;
    if (status < 300) {
      sent.settle(reply, outcome, clock.now());
      return 0;
    }
    const why = outcome.problem ?? `status ${status}`;
    if (FINAL.has(status)) return this.#refuse(reply, why);
    const wait = this.#postpone(reply, why, (wholeSeconds(headers.get("Retry-After")) ?? 0) * 1000);
    return OF_ALL.has(status) ? wait : 0;
  }

  #refuse(reply: SentMessage, problem: string): number {
    const { clock, sent, tell } = this.#deps;
    sent.settle(reply, { state: "refused", problem }, clock.now());
    tell("reply_refused", { to: reply.toDid, requestId: reply.requestId, why: problem });
    return 0;
  }

  /** @param asked milliseconds that the proxy asks for */
  #postpone(reply: SentMessage, why: string, asked: number): number {
    const { clock, sent, tell } = this.#deps;
    const attempts = reply.attempts + 1;
    const wait = Math.min(Math.max(receiptWait(attempts), asked), CLIENT_LIMITS.receiptMaxMs);
    sent.postpone(reply, attempts, clock.now() + wait);
    tell("reply_failed", { to: reply.toDid, requestId: reply.requestId, why, nextInMs: wait });
    return wait;
  }
}
