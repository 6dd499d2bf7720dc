/** Sends receipts to the proxy until it has them (D-72): oldest first, `receiptsAtOnce` at a time. Stores nothing. */
import type { Clock } from "../../../shared/clock.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import { receiptWait } from "../../../shared/client/backoff.ts";
import type { EmitEvent } from "../events.ts";
import { CONNECTOR_LIMITS } from "../limits.ts";
import { CLIENT_LIMITS } from "../../../shared/client/limits.ts";
import type { Outbox, PendingReceipt } from "./outbox.ts";
import type { ProxyCaller } from "../../../shared/client/proxy_caller.ts";
import { describeError, isReceiptRefused } from "../../../shared/client/refusals.ts";
import { SendingLoop } from "./sending_loop.ts";

interface SenderDeps {
  clock: Clock;
  outbox: Outbox;
  proxy: Pick<ProxyCaller, "ask">;
  recipientDid: string;
  tell: EmitEvent;
}

export class ReceiptSender extends SendingLoop<PendingReceipt> {
  readonly #deps: SenderDeps;
  /** Receipts that the proxy has and that are still in the outbox. */
  readonly #sent = new Set<number>();

  constructor(deps: SenderDeps) {
    const { clock, tell, outbox } = deps;
    super({ clock, tell, queue: outbox, atOnce: CONNECTOR_LIMITS.receiptsAtOnce });
    this.#deps = deps;
  }

  protected override prepare(): void {
    for (const seq of this.#sent) this.#remove(seq);
  }

  protected override async send(receipt: PendingReceipt): Promise<number> {
    const { clock, outbox, proxy, recipientDid, tell } = this.#deps;
    const { seq, fromDid, requestId, status, at } = receipt;
    const about = { from: fromDid, requestId, status };
    const body = JSON.stringify({
      requestId,
      recipientAgentDid: recipientDid,
      senderAgentDid: fromDid,
      status,
      timestamp: toIso(at),
    });
    try {
      await proxy.ask({ method: "POST", target: "/v1/relay/delivery-receipts", body });
    } catch (error) {
      if (isReceiptRefused(error)) {
        this.#remove(seq);
        tell("receipt_refused", { ...about, why: describeError(error) });
        return 0;
      }
      const attempts = receipt.attempts + 1;
      const asked = error instanceof ApiError ? (error.retryAfter ?? 0) * 1000 : 0;
      const wait = Math.min(Math.max(receiptWait(attempts), asked), CLIENT_LIMITS.receiptMaxMs);
      outbox.postpone(seq, attempts, clock.now() + wait);
      tell("receipt_failed", { ...about, why: describeError(error), nextInMs: wait });
      return wait;
    }
    this.#remove(seq);
    tell("receipt_sent", about);
    return 0;
  }

  /** Removes a receipt that the proxy has; while the store cannot be written it is not sent again (D-247). */
  #remove(seq: number): void {
    this.#sent.add(seq);
    this.#deps.outbox.remove(seq);
    this.#sent.delete(seq);
  }
}
