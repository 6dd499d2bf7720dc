/** A `connector.db` in a temporary folder, which a test opens again as a restart does, and messages for it. */
import { Database } from "../../../../cli/connector/delivery/database.ts";
import { Inbox } from "../../../../cli/connector/delivery/inbox.ts";
import { Outbox } from "../../../../cli/connector/delivery/outbox.ts";
import { type NewSentMessage, SentMessages } from "../../../../cli/connector/delivery/sent_messages.ts";

const did = (last: string) => `did:svc:localhost:agent:01KHYQ5H00AAAAAAAAAAAAAAA${last}`;
/** The agent whose database it is, and two peers. */
export const [ALPHA, BETA, GAMMA] = [did("A"), did("B"), did("C")];

/** 29 bytes; JavaScript would round the number. */
export const PAYLOAD = '{ "n": 12345678901234567890 }';

export class Disk implements AsyncDisposable {
  #open: Database | null = null;
  private constructor(readonly folder: string) {}

  static async make(): Promise<Disk> {
    return new Disk(await Deno.makeTempDir({ prefix: "svc_disk_" }));
  }

  get path(): string {
    return `${this.folder}/connector.db`;
  }

  /** Opens the database; closes the one of before. */
  open(delivery: "push" | "pull" = "push") {
    this.#open?.close();
    const db = this.#open = Database.open(this.path);
    const outbox = new Outbox(db), sent = new SentMessages(db);
    return { db, outbox, sent, inbox: new Inbox(db, { outbox, sent, delivery }) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#open?.close();
    await Deno.remove(this.folder, { recursive: true });
  }
}

interface More {
  from?: string;
  payload?: string;
  conversationId?: string;
  inReplyTo?: string;
  auto?: true;
}

/** A message from beta, as a frame has it. */
export function received(requestId: string, { from = BETA, payload = PAYLOAD, ...more }: More = {}) {
  const identity = {
    agentDid: from,
    ownerDid: "did:svc:localhost:human:01KHYQ5H00AAAAAAAAAAAAAAAB",
    issuer: "https://registry.example.test",
    aitJti: "01KHYQ5H00AAAAAAAAAAAAAAAC",
    name: "sender",
  };
  return { fromAgentDid: from, requestId, toAgentDid: ALPHA, identity, payload, ...more };
}

/** Stores a message; returns the result. */
export function store(inbox: Inbox, requestId: string, more: More = {}, now = 0): string {
  return inbox.take([received(requestId, more)], now)[0]?.taken ?? "";
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
