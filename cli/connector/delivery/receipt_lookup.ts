/**
 * Asks the proxy how sent messages ended (D-115), only while a caller of the local API waits or asks. A failed request is
 * made again at the next time, and leaves the state unchanged.
 */
import type { Cancel, Clock } from "../../../shared/clock.ts";
import type { ProxyCaller } from "../../../shared/client/proxy_caller.ts";
import { ReceiptList } from "../../../shared/protocol/api/receipts.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import type { SentMessages } from "./sent_messages.ts";
import type { Question } from "./waits.ts";

interface LookupDeps {
  clock: Clock;
  sent: SentMessages;
  proxy: Pick<ProxyCaller, "ask">;
}

/** States after which a receipt can say more. */
const OPEN: ReadonlySet<string> = new Set(["queued", "delivered", "unknown", "dead_lettered"]);

export class ReceiptLookup {
  readonly #deps: LookupDeps;
  /** Requests under way, and the latest time of a request, by message. */
  readonly #asking = new Map<string, Promise<void>>();

  constructor(deps: LookupDeps) {
    this.#deps = deps;
  }

  /** Asks after 1, 2, 4 and 8 s, then every 15 s, until the result is disposed. */
  follow(question: Question): Disposable {
    const { clock } = this.#deps;
    let cancel: Cancel = () => {};
    let isOver = false;
    const next = (waits: number) => {
      const ms = Math.min(LIMIT.receiptLookupFirstMs * 2 ** waits, LIMIT.receiptLookupMaxMs);
      cancel = clock.after(ms, async () => {
        await this.ask(question);
        if (!isOver) next(waits + 1);
      });
    };
    next(0);
    return {
      [Symbol.dispose]: () => {
        isOver = true;
        cancel();
      },
    };
  }

  /** Asks once and stores the state that the receipts show. Calls at the same time share one request. Never rejects. */
  ask(question: Question): Promise<void> {
    const key = `${question.toDid} ${question.requestId}`;
    const asking = this.#asking.get(key) ?? this.#ask(question).finally(() => this.#asking.delete(key));
    this.#asking.set(key, asking);
    return asking;
  }

  async #ask({ toDid, requestId }: Question): Promise<void> {
    const { clock, sent, proxy } = this.#deps;
    try {
      if (!OPEN.has(sent.find(requestId, toDid)?.state ?? "")) return;
      const query = new URLSearchParams({ requestId, recipientAgentDid: toDid });
      const answer = await proxy.ask({ method: "GET", target: `/v1/relay/delivery-receipts?${query}` });
      const statuses = ReceiptList.parse(answer).receipts.map(({ status }) => status);
      const message = sent.find(requestId, toDid);
      if (message === null || statuses.length === 0) return;
      // A dead letter can be replayed, so it can have both receipts.
      const state = statuses.includes("processed_by_svc") ? "processed" : "dead_lettered";
      sent.settle(message, { state }, clock.now());
    } catch {
      // The caller learns the last known state.
    }
  }
}
