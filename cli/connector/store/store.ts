/**
 * What the connector keeps in `connector.db`: received messages, sent messages, receipts and tasks. A message and its
 * receipt change in one transaction, and a change is told after its commit, so that no part acts on what a failed
 * commit undoes.
 */
import type { NewId } from "../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { ProvenMessage } from "../check_proof.ts";
import type { Database } from "./database.ts";
import { History } from "./history.ts";
import { type EndedMessage, ReceivedMessages, type ReceivedOptions } from "./received_messages.ts";
import { ReceiptRows } from "./receipt_rows.ts";
import { PairConfirmations, PairSecrets } from "./pairing_rows.ts";
import { type OldProof, SeenProofs } from "./seen_proofs.ts";
import { SentMessages } from "./sent_messages.ts";
import { TaskRows } from "./task_rows.ts";

/**
 * How long a receipt is tried: as long as the proxy accepts it. For a queued message these 8 days start at the end of
 * its mailbox lifetime, so a connector that does not reach the proxy for 8 days may drop a receipt that the proxy would
 * still accept.
 */
const RECEIPT_KEPT_MS = LIMITS.deliveryKeptSeconds * 1000;

export interface StoreOptions extends ReceivedOptions {
  newId: NewId;
  /** How long the texts of read and sent messages are kept. */
  historyMs: number;
  /** As `Database.onDamaged`. */
  onDamaged(error: unknown): void;
}

export class ConnectorStore implements Disposable {
  readonly received: ReceivedMessages;
  readonly sent: SentMessages;
  readonly history: History;
  readonly receipts: ReceiptRows;
  readonly tasks: TaskRows;
  readonly proofs: SeenProofs;
  readonly pairSecrets: PairSecrets;
  readonly pairConfirmations: PairConfirmations;

  constructor(readonly database: Database, private readonly options: StoreOptions) {
    const { onChange, onDamaged, newId } = options;
    database.onDamaged = onDamaged;
    this.receipts = new ReceiptRows(database, onChange, newId);
    this.sent = new SentMessages(database, onChange);
    this.history = new History(database, this.sent);
    this.tasks = new TaskRows(database);
    this.proofs = new SeenProofs(database);
    this.pairSecrets = new PairSecrets(database);
    this.pairConfirmations = new PairConfirmations(database);
    this.received = new ReceivedMessages(database, this, options);
  }

  /** Remembers a probe's proof, so that nothing answers it twice, and adds its receipt. No message is stored. */
  answerProbe(probe: ProvenMessage, now: number, hasReceipt: boolean): "probed" | OldProof {
    return this.database.transaction(() => {
      const judged = this.proofs.judge(probe);
      if (judged !== "new") return judged;
      this.proofs.add(probe);
      const { fromAgentDid: fromDid, requestId, nonce, bodySha256, payloadSha256, conversationId } = probe;
      const about = { nonce, bodySha256, payloadSha256, conversationId };
      if (hasReceipt) this.receipts.add({ fromDid, requestId, status: "processed_by_svc", at: now, about });
      return "probed";
    });
  }

  /** Ends what an earlier run left open: requests under way, and messages for callers that waited. */
  recover(now: number): void {
    this.sent.markInterrupted(now);
    this.received.releaseHeld();
  }

  /** Blanks the texts of read messages and of sent ones that have ended, of a peer or of all. Returns how many. */
  forgetTexts(did: string | null): number {
    return this.database.transaction(() => this.received.blank(did) + this.sent.blank(did));
  }

  /**
   * Deletes what is kept no longer; the retention of each record stands beside its table. Returns the messages that
   * became dead letters because no one read them.
   */
  deleteExpired(now: number): readonly EndedMessage[] {
    const { historyMs } = this.options;
    const expired = this.received.expireUnread(now);
    this.received.forget(now, historyMs);
    this.sent.forget(now, historyMs);
    this.receipts.forget(now - RECEIPT_KEPT_MS);
    this.tasks.forget(now);
    this.proofs.forget(now);
    this.pairSecrets.forget(now);
    return expired;
  }

  [Symbol.dispose](): void {
    this.database[Symbol.dispose]();
  }
}
