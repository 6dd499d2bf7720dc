/** A `connector.db` in a temporary folder, which a test opens again as a restart does, and messages for it. */
import type { ReceivedMessages, ReplyClaims } from "../../../../cli/connector/store/received_messages.ts";
import type { Change } from "../../../../cli/connector/store/received_rows.ts";
import type { NewSentMessage } from "../../../../cli/connector/store/sent_messages.ts";
import { Database } from "../../../../cli/connector/store/database.ts";
import { ConnectorStore, type StoreOptions } from "../../../../cli/connector/store/store.ts";
import { DAY_MS } from "../../../../shared/clock.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";

const did = (last: string) => `did:svc:localhost:agent:01KHYQ5H00AAAAAAAAAAAAAAA${last}`;
/** The agent whose database it is, and two peers. */
export const [ALPHA, BETA, GAMMA] = [did("A"), did("B"), did("C")];

/** How long texts are kept when the person has not chosen another time. */
export const HISTORY_MS = LIMITS.historyDays * DAY_MS;

/** 29 bytes; JavaScript would round the number. */
export const PAYLOAD = '{ "n": 12345678901234567890 }';

const NO_CLAIMS: ReplyClaims = { heldUntil: () => 0, isClaimed: () => false };
/** A store of a push platform that nothing listens to. */
export const OPTIONS: StoreOptions = {
  newId: () => "01KHYQ5H00AAAAAAAAAAAAAAAA",
  delivery: "push",
  claims: NO_CLAIMS,
  onChange: () => {},
  onDamaged: () => {},
  historyMs: HISTORY_MS,
};

export class Disk implements AsyncDisposable {
  #open: ConnectorStore | null = null;
  private constructor(readonly folder: string) {}

  static async make(): Promise<Disk> {
    return new Disk(await Deno.makeTempDir({ prefix: "svc_disk_" }));
  }

  get path(): string {
    return `${this.folder}/connector.db`;
  }

  /** Opens the store; closes the one of before. `changes` are those that it tells. */
  open(delivery: "push" | "pull" = "push") {
    this.#open?.[Symbol.dispose]();
    const changes: Change[] = [];
    const claims: ReplyClaims = { ...NO_CLAIMS };
    const onChange = (change: Change) => void changes.push(change);
    const store = this.#open = new ConnectorStore(Database.open(this.path), { ...OPTIONS, delivery, claims, onChange });
    return {
      store,
      db: store.database,
      outbox: store.receipts,
      sent: store.sent,
      inbox: store.received,
      claims,
      changes,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#open?.[Symbol.dispose]();
    await Deno.remove(this.folder, { recursive: true });
  }
}

interface More {
  from?: string;
  owner?: string;
  payload?: string;
  conversationId?: string;
  inReplyTo?: string;
  auto?: true;
}

let nonces = 0;

/** What the check of a message has found of its proof; each one is new. */
export function proven() {
  return { nonce: `nonce-${++nonces}`, bodySha256: "A".repeat(43), signedAt: 0, verified: "by-registry" as const };
}

/** A proven message from beta. Agents have different owners, unless `owner` is given. */
export function received(requestId: string, { from = BETA, owner = from, payload = PAYLOAD, ...more }: More = {}) {
  const identity = {
    agentDid: from,
    ownerDid: owner.replace(":agent:", ":human:"),
    issuer: "https://registry.example.test",
    aitJti: "01KHYQ5H00AAAAAAAAAAAAAAAC",
    name: "sender",
  };
  return { fromAgentDid: from, requestId, toAgentDid: ALPHA, identity, payload, ...proven(), ...more };
}

/** Stores a message; returns the result. */
export function store(inbox: ReceivedMessages, requestId: string, more: More = {}, now = 0): string {
  return inbox.take([received(requestId, more)], now)[0] ?? "";
}

/** A message to beta. */
export function outgoing(requestId: string, more: Partial<NewSentMessage> = {}): NewSentMessage {
  return {
    toDid: BETA,
    requestId,
    conversationId: null,
    inReplyTo: null,
    auto: false,
    origin: "program",
    payload: PAYLOAD,
    ...more,
  };
}
