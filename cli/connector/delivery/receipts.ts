/** Sends receipts to the proxy until it has them (D-72): oldest first, `receiptsAtOnce` at a time. Stores nothing. */
import type { Cancel, Clock } from "../../../shared/clock.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import { receiptWait } from "../../../shared/client/backoff.ts";
import type { EmitEvent } from "../events.ts";
import { CONNECTOR_LIMITS } from "../limits.ts";
import { CLIENT_LIMITS } from "../../../shared/client/limits.ts";
import type { Outbox, PendingReceipt } from "./outbox.ts";
import type { ProxyCaller } from "../../../shared/client/proxy_caller.ts";
import { describeError } from "../../../shared/client/refusals.ts";

interface SenderDeps {
  clock: Clock;
  outbox: Outbox;
  proxy: Pick<ProxyCaller, "ask">;
  recipientDid: string;
  tell: EmitEvent;
}

export class ReceiptSender {
  readonly #deps: SenderDeps;
  #cancel: Cancel = () => {};
  #sending: Promise<void> | null = null;
  #again = false;
  #stopped = false;
  /** Receipts that the proxy has and that are still in the outbox. */
  readonly #sent = new Set<number>();

  constructor(deps: SenderDeps) {
    this.#deps = deps;
  }

  /** Sends the receipts that are due, and schedules the next run. */
  wake(): void {
    this.#cancel();
    if (this.#stopped) return;
    if (this.#sending) {
      this.#again = true;
      return;
    }
    this.#sending = this.#sendDue().catch((error) => {
      this.#deps.tell("store_failed", { why: describeError(error) });
      return CLIENT_LIMITS.receiptFirstMs;
    }).then((leastWait) => {
      this.#sending = null;
      this.#later(leastWait);
    });
  }

  /** Makes every receipt due and sends them, after the proxy has come back. */
  sendAllNow(): void {
    const { outbox, clock, tell } = this.#deps;
    try {
      outbox.makeAllDue(clock.now());
    } catch (error) {
      tell("store_failed", { why: describeError(error) });
    }
    this.wake();
  }

  /** Sends for up to `ms`, then stops. The rest is sent after the next start. */
  async stop(ms: number): Promise<void> {
    const patience = Promise.withResolvers<void>();
    const cancel = this.#deps.clock.after(ms, patience.resolve);
    this.wake();
    await Promise.race([this.#sending, patience.promise]);
    this.#stopped = true;
    cancel();
    this.#cancel();
  }

  #later(leastWait: number): void {
    if (this.#stopped) return;
    if (this.#again && leastWait === 0) {
      this.#again = false;
      return this.wake();
    }
    this.#again = false;
    const { clock, outbox } = this.#deps;
    const next = outbox.nextAt();
    if (next === null) return;
    const wait = Math.min(Math.max(next - clock.now(), leastWait), CLIENT_LIMITS.receiptMaxMs);
    this.#cancel = clock.after(wait, () => this.wake());
  }

  /** @returns milliseconds to wait before the next request, when the proxy does not answer or asks for a pause */
  async #sendDue(): Promise<number> {
    const { clock, outbox } = this.#deps;
    for (const seq of this.#sent) this.#remove(seq);
    while (!this.#stopped) {
      const now = clock.now();
      const due = outbox.due(now, now + CLIENT_LIMITS.receiptMaxMs);
      if (due.length === 0) return 0;
      for (let i = 0; i < due.length && !this.#stopped; i += CONNECTOR_LIMITS.receiptsAtOnce) {
        const batch = due.slice(i, i + CONNECTOR_LIMITS.receiptsAtOnce);
        const waits = await Promise.all(batch.map((receipt) => this.#send(receipt)));
        const wait = Math.max(...waits);
        if (wait > 0) return wait;
      }
    }
    return 0;
  }

  async #send(receipt: PendingReceipt): Promise<number> {
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
      if (isFinal(error)) {
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

/** Codes of a receipt that the proxy rejects permanently. */
const FINAL: ReadonlySet<string> = new Set([
  "PROXY_RELAY_RECEIPT_INVALID",
  "PROXY_RELAY_RECEIPT_FORBIDDEN",
  "PROXY_RECEIPT_DELIVERY_NOT_FOUND",
]);

function isFinal(error: unknown): boolean {
  return error instanceof ApiError && FINAL.has(error.code ?? "");
}
