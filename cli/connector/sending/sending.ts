/**
 * Sends messages, kept messages and receipts, and asks how sent messages ended: when a caller of the local API wants to
 * know, when the proxy tells of an end without a receipt, at each new link, and every 5 min at other servers. After a
 * failure it asks again at the next of these times.
 */
import { type Cancel, sleep } from "../../../shared/clock.ts";
import { doubled } from "../../../shared/client/backoff.ts";
import { DeliveriesAnswer, Receipt, ReceiptBody, ReceiptList } from "../../../shared/protocol/api/receipts.ts";
import { orReport } from "../events.ts";
import type { Parts } from "../parts.ts";
import { shownState } from "../states.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import { keyOf, type SentKey } from "../store/received_rows.ts";
import type { CheckedReceipt } from "../../../shared/client/local_shapes.ts";
import { MinuteCounts } from "../../link/minute_counts.ts";
import { pinOf } from "../peers/peers.ts";
import { MessageSender, type MessageToSend, type SentResult } from "./message_sender.ts";
import { KeptSender, ReceiptSender } from "./sending_loop.ts";
import { parseReceipt, type ReceiptClaims, verifyReceipt } from "../../../shared/protocol/receipt_token.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { TokenError } from "../../../shared/protocol/signed/jws.ts";
import type { Pin } from "../check_proof.ts";
import type { SentProof, StateChange } from "../store/sent_messages.ts";

/** First wait before receipts are asked for again; doubles. With less, a slow recipient costs many requests. */
const LOOKUP_FIRST_MS = 1_000;

/** Receipts that are checked, as many as a proxy lists. With more, their signatures would hold up the messages. */
const RECEIPTS_CHECKED_MAX = 20;
/** A receipt that comes with news. Anything else in its place is dropped, because it would wait in the memory. */
const ToldReceipt = Receipt.omit({ ait: true }).extend({ signed: ReceiptBody.shape.signed.unwrap() });
/** Told receipts that wait for their check. With more, a relay could fill the memory; the rest are asked for. */
const TOLD_MAX = 1_000;

/** States after which a receipt can say more. */
const OPEN: ReadonlySet<string> = new Set(["queued", "delivered", "unknown", "dead_lettered"]);

/**
 * Time between two questions to other servers. With less, one open message asks a server all the time; with more, its
 * outcome is shown later.
 */
const ABROAD_EVERY_MS = 300_000;
/**
 * Time between two questions about all open messages. With less, each look at the list costs the proxy a hundred reads.
 */
export const REFRESH_MS = 10_000;
/** Messages in a question, as many as the proxy takes, and questions in a row. Messages beyond these ended long ago. */
const REFRESHED_TOGETHER = 100, REFRESH_REQUESTS = 10;

export class Sending {
  readonly #sender: MessageSender;
  /** Requests for receipts under way, by message. */
  readonly #asking = new Map<string, Promise<void>>();
  readonly #loops: { receipt: ReceiptSender; kept: KeptSender };

  constructor(private readonly deps: Parts) {
    this.#sender = new MessageSender(deps);
    this.#loops = { receipt: new ReceiptSender(deps), kept: new KeptSender(deps, this.#sender) };
  }

  /** Sends a message. A repeated request ID is the same message (D-69). @throws as `MessageSender.send` */
  async send(message: MessageToSend): Promise<SentResult> {
    const result = await this.#sender.send(message), host = this.deps.proxies.hostOf(message.toDid);
    const status = result.response?.status ?? 0, isUnpaired = status === 403 || host !== null && status === 401;
    // The list of peers is read, because only it tells whether the pair has ended.
    if (isUnpaired && this.deps.peers.of(message.toDid)?.gone === undefined) void this.deps.readPeers();
    if (status > 0 && status < 300) this.#loops.kept.reached(host);
    return result;
  }

  /** Sends what waits for the server of a peer, because that server works again. */
  heardOf(did: string): void {
    this.deps.proxies.forgetLast(did);
    this.#loops.kept.reached(this.deps.proxies.hostOf(did));
  }

  /** Tries the server of a peer that has written, because it probably works again. */
  heardFrom(did: string): void {
    this.#loops.kept.tryNow(this.deps.proxies.hostOf(did));
  }

  /**
   * Tries another server that has answered, because it may take messages again. Asks it later how its messages ended.
   */
  answeredBy(host: string): void {
    this.#loops.kept.tryNow(host);
    this.#followAbroad();
  }

  wake(kind: "receipt" | "kept"): void {
    this.#loops[kind].wake();
  }

  sendAllNow(): void {
    this.#loops.receipt.sendAllNow();
    this.#loops.kept.sendAllNow();
  }

  /** Asks how a message ended: after 1, 2, 4 and 8 s, then every 15 s, until the result is disposed. */
  follow(sent: SentKey): Disposable {
    const end = new AbortController();
    void this.#follow(sent, end.signal);
    return { [Symbol.dispose]: () => end.abort() };
  }

  async #follow(sent: SentKey, end: AbortSignal): Promise<void> {
    for (let waits = 0; !end.aborted; waits++) {
      await sleep(this.deps.clock, doubled(LOOKUP_FIRST_MS, waits, LIMIT.receiptLookupMaxMs), end);
      if (!end.aborted) await this.ask(sent);
    }
  }

  /** Asks once and stores the state that the receipts show. Calls at the same time share one request. Never rejects. */
  ask(sent: SentKey): Promise<void> {
    const key = keyOf(sent);
    return this.#asking.getOrInsertComputed(key, () => this.#ask(sent).finally(() => this.#asking.delete(key)));
  }

  /** Sends nothing of what waits, from now on. */
  end(): void {
    this.#isStopped = true;
    this.#cancelAbroad?.();
    this.#loops.receipt.end();
    this.#loops.kept.end();
  }

  async stop(ms: number): Promise<void> {
    await Promise.all([this.#loops.receipt.stop(ms), this.#loops.kept.stop(ms)]);
    this.end();
  }

  /**
   * Stores the state that the proxy tells, but a ticket peer must sign `processed`, because a proxy may lie (D-154).
   *
   * @param receipt as the proxy sent it, so it may be of any form
   */
  told(
    { requestId, recipientAgentDid: toDid, state }: DeliveriesAnswer["deliveries"][number],
    receipt?: unknown,
  ): void {
    const sent = { toDid, requestId };
    if (state === "processed" && this.#signs(toDid)) return this.#prove(sent, receipt);
    orReport(this.deps.emit, () => this.#settle(sent, state), undefined, { to: toDid, requestId });
  }

  #settle({ toDid, requestId }: SentKey, state: StateChange["state"]): void {
    const { clock, store: { sent } } = this.deps, message = sent.find(requestId, toDid);
    if (message !== null) sent.settle(message, { state }, clock.now());
  }

  #signs(did: string): boolean {
    return pinOf(this.deps.peers.of(did))?.how === "ticket";
  }

  /**
   * Checks the receipts of the messages to a server one after the other, because a proxy that tells of many would
   * otherwise cause as many checks of signatures, or requests, at once. Asks for the receipts that did not come with the
   * news, and a server that answers late holds up only what is known of its own agents.
   */
  #prove(sent: SentKey, told: unknown): void {
    const key = keyOf(sent), { emit, store } = this.deps;
    if (this.#toProve.has(key)) return;
    // A relay that invents messages would fill the memory while a question is under way.
    if (orReport(emit, () => store.sent.find(sent.requestId, sent.toDid), null) === null) return;
    const receipt = this.#toProve.size < TOLD_MAX ? ToldReceipt.safeParse(told).data : undefined;
    this.#toProve.add(key);
    const host = this.deps.proxies.hostOf(sent.toDid);
    const proving = (this.#proving.get(host) ?? Promise.resolve()).then(async () => {
      this.#toProve.delete(key);
      if (receipt !== undefined && await this.#stored([receipt], sent).catch(() => false)) return;
      // Waits for a question that is under way, because its answer may be from before the news.
      await this.#asking.get(key);
      await this.ask(sent);
    }).finally(() => {
      if (this.#proving.get(host) === proving) this.#proving.delete(host);
    });
    this.#proving.set(host, proving);
  }
  readonly #toProve = new Set<string>();
  /** The last check for each server. Never rejects, because `ask` does not. */
  readonly #proving = new Map<string | null, Promise<void>>();

  /** Stores the state that the receipts of a message prove. Returns false when they prove none. */
  async #stored(receipts: readonly Receipt[], sent: SentKey): Promise<boolean> {
    const state = shownState(await this.checked(receipts, sent), this.#signs(sent.toDid));
    if (state !== null) this.#settle(sent, state);
    return state !== null;
  }

  /** Checks receipts of a message against the message and its recipient's key. Reports a wrong one, once a minute. */
  async checked(receipts: readonly Receipt[], { toDid, requestId }: SentKey): Promise<CheckedReceipt[]> {
    const { clock, did, peers, emit, store: { sent } } = this.deps;
    const known = { did, pin: pinOf(peers.of(toDid)), sent: sent.proofOf(requestId, toDid) };
    const ofMessage = receipts.filter((one) => one.recipientAgentDid === toDid && one.requestId === requestId)
      .slice(0, RECEIPTS_CHECKED_MAX);
    const checked = await Promise.all(ofMessage.map((receipt) => checkReceipt(receipt, known)));
    const why = checked.find(({ problem }) => problem !== undefined)?.problem;
    // Reported once a minute, because a relay that forges receipts would otherwise fill the log.
    if (why !== undefined && this.#wrong.add("all", clock.now()).count === 1) {
      emit("receipt_invalid", { to: toDid, requestId, why });
    }
    return checked;
  }
  readonly #wrong = new MinuteCounts();

  /**
   * Asks for the outcomes of the messages whose state can still change, the newest first, at most once in 10 s; calls
   * meanwhile share the answer. Never rejects, because the next call after a failure asks again.
   */
  refresh(): Promise<void> {
    const { clock } = this.deps;
    const now = clock.now();
    if (now - this.#refreshedAt < REFRESH_MS && now >= this.#refreshedAt) return this.#refreshing;
    this.#refreshedAt = now;
    return this.#refreshing = this.#refresh().catch(() => {
      this.#refreshedAt = -Infinity;
    });
  }
  #refreshedAt = -Infinity;
  #refreshing = Promise.resolve();

  async #refresh(): Promise<void> {
    const { store: { sent } } = this.deps, abroad: Promise<void>[] = [];
    for (let before = Infinity, requests = 0; requests < REFRESH_REQUESTS; requests++) {
      const open = sent.open(before, REFRESHED_TOGETHER);
      if (open.length === 0) break;
      const byHost = Map.groupBy(open, ({ toDid }) => this.deps.proxies.hostOf(toDid));
      for (const [host, some] of byHost) {
        // Another server may fail or answer late, which would hide what the agent's own server says.
        if (host !== null) abroad.push(this.#askAbout(some).catch(() => {}));
      }
      if (abroad.length > 0) this.#followAbroad();
      await this.#askAbout(byHost.get(null) ?? []);
      before = open.at(-1)?.seq ?? 0;
    }
    await Promise.all(abroad);
  }

  /** Asks the home proxy of these recipients how messages ended. */
  async #askAbout(messages: readonly SentKey[]): Promise<void> {
    const [first] = messages;
    if (first === undefined) return;
    const about = messages.map(({ requestId, toDid }) => ({ requestId, recipientAgentDid: toDid }));
    const body = JSON.stringify({ messages: about });
    const target = "/v1/relay/deliveries";
    const { deliveries } = await this.deps.proxies.of(first.toDid).ask(
      { method: "POST", target, body },
      DeliveriesAnswer,
    );
    const asked = new Set(messages.map(keyOf));
    for (const news of deliveries) {
      // Other news is ignored, because a server could say that a message to another server has failed.
      if (asked.has(keyOf({ toDid: news.recipientAgentDid, requestId: news.requestId }))) this.told(news);
    }
  }

  /**
   * Asks again later while messages to other servers are open, because no link to those servers brings news. A time
   * that is set already stays, because an agent that goes on sending would otherwise never ask.
   */
  #followAbroad(): void {
    if (this.#isStopped || this.#cancelAbroad !== null) return;
    this.#cancelAbroad = this.deps.clock.after(ABROAD_EVERY_MS, () => {
      this.#cancelAbroad = null;
      // An answer of a moment ago is not enough, because it may lack a message, and no later question would be planned.
      this.#refreshedAt = -Infinity;
      void this.refresh();
    });
  }
  #cancelAbroad: Cancel | null = null;
  #isStopped = false;

  async #ask(key: SentKey): Promise<void> {
    const { toDid, requestId } = key;
    const { store: { sent }, proxies } = this.deps;
    try {
      if (!OPEN.has(sent.find(requestId, toDid)?.state ?? "")) return;
      const query = new URLSearchParams({ requestId, recipientAgentDid: toDid });
      const target = `/v1/relay/delivery-receipts?${query}`;
      const { receipts } = await proxies.of(toDid).ask({ method: "GET", target }, ReceiptList);
      await this.#stored(receipts, key);
    } catch {
      // After a failure the message keeps the last known state.
    }
  }
}

interface KnownOfReceipt {
  did: string;
  /** `null` for a recipient whose key is not known. */
  pin: Pin | null;
  /** The message; `null` without a record of it, so that its body and conversation are not compared. */
  sent: SentProof | null;
}

/**
 * A problem that no agent or server has caused, because after a day a request ID may name a new message while the proxy
 * still lists the receipt of the old one.
 */
const EARLIER = "it is of an earlier message";

/** Returns the receipt with what it proves (D-154). With a `problem`, a server or the recipient has lied. */
async function checkReceipt(receipt: Receipt, known: KnownOfReceipt): Promise<CheckedReceipt> {
  const { pin, sent } = known;
  const problem = await problemOf(receipt, known);
  if (problem === EARLIER) return { ...receipt, verified: "by-proxy" };
  const shown = { ...receipt, ...(sent === null || sent.salt === null ? {} : { salt: sent.salt }) };
  if (problem !== null) return { ...shown, verified: "by-proxy", problem };
  return { ...shown, verified: receipt.signed === undefined || pin === null ? "by-proxy" : "signed" };
}

async function problemOf(
  { requestId, recipientAgentDid, status, signed }: Receipt,
  { did, pin, sent }: KnownOfReceipt,
): Promise<string | null> {
  if (signed === undefined) {
    const isMissing = pin?.how === "ticket" && status === "processed_by_svc";
    return isMissing ? "its recipient signs each receipt" : null;
  }
  // Without a key nothing can be checked, so nothing is reported as wrong.
  if (pin === null) return null;
  let claims: ReceiptClaims;
  try {
    const jws = parseReceipt(signed);
    if (jws.kid !== pin.key) return "it is signed with another key than the recipient's";
    claims = await verifyReceipt(jws);
  } catch (error) {
    if (error instanceof TokenError) return error.message;
    throw error;
  }
  const of = firstOther([
    ["recipient", claims.iss, recipientAgentDid],
    ["sender", claims.sub, did],
    ["request ID", claims.requestId, requestId],
    ["status", claims.status, status],
  ]);
  if (of !== null || sent === null) return of;
  const ofMessage = firstOther([
    ["body", claims.bodySha256, sent.bodySha256],
    ["payload", claims.payloadSha256, sent.payloadSha256 ?? undefined],
    ["conversation", claims.conversationId, sent.conversationId ?? undefined],
  ]);
  return ofMessage !== null && claims.iat < unixSeconds(sent.sentAt) ? EARLIER : ofMessage;
}

type Compared = [what: string, said: string | null | undefined, known: string | null | undefined];

/** Names the first value that differs from the message's; `null` when none does. */
function firstOther(expected: readonly Compared[]): string | null {
  const [what] = expected.find(([, said, known]) => said !== known) ?? [];
  return what === undefined ? null : `its ${what} is not that of the message`;
}
