/** Receipts of an `Agent` on their way to the proxy: in memory, tried again until the agent closes (D-125). */
import { type Clock, sleep } from "../../clock.ts";
import { toIso } from "../../protocol/time.ts";
import { receiptWait } from "../backoff.ts";
import { isReceiptRefused } from "../refusals.ts";
import type { ProxyCaller } from "../proxy_caller.ts";
import type { IncomingMessage, Receipt } from "./agent_api.ts";
import type { EventHandlers } from "./event_handlers.ts";

export class ReceiptQueue {
  readonly #pending = new Set<Promise<void>>();
  readonly #stop = new AbortController();

  constructor(
    private readonly clock: Clock,
    private readonly proxy: Pick<ProxyCaller, "ask">,
    private readonly recipientAgentDid: string,
    private readonly events: EventHandlers,
  ) {}

  get size(): number {
    return this.#pending.size;
  }

  add({ requestId, from }: IncomingMessage, status: Receipt["status"]): void {
    const { recipientAgentDid } = this;
    const timestamp = toIso(this.clock.now());
    const body = JSON.stringify({ requestId, recipientAgentDid, senderAgentDid: from.agentDid, status, timestamp });
    const sending = this.#send(requestId, body).finally(() => this.#pending.delete(sending));
    this.#pending.add(sending);
  }

  /** Resolves when no receipt waits. */
  async sent(): Promise<void> {
    await Promise.all(this.#pending);
  }

  /** Ends the repetitions. */
  stop(): void {
    this.#stop.abort();
  }

  async #send(requestId: string, body: string): Promise<void> {
    for (let attempts = 1; !this.#stop.signal.aborted; attempts++) {
      try {
        await this.proxy.ask({ method: "POST", target: "/v1/relay/delivery-receipts", body });
        return;
      } catch (error) {
        const isFinal = isReceiptRefused(error);
        if (attempts === 1 || isFinal) this.events.problem(error, `The receipt of ${requestId} was not sent`);
        if (isFinal) return;
        await sleep(this.clock, receiptWait(attempts), this.#stop.signal);
      }
    }
  }
}
