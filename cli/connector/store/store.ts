/**
 * What the connector keeps in `connector.db`: received messages, sent messages, receipts and tasks. A message and its
 * receipt change in one transaction, and a change is told after its commit, so that no part acts on what a failed
 * commit undoes.
 */
import { DAY_MS } from "../../../shared/clock.ts";
import type { NewId } from "../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { ProvenMessage } from "../check_proof.ts";
import { Database } from "./database.ts";
import { ReceivedMessages, type ReceivedOptions } from "./received_messages.ts";
import { ReceiptRows } from "./receipt_rows.ts";
import { PairConfirmations, PairSecrets } from "./pairing_rows.ts";
import { SeenProofs } from "./seen_proofs.ts";
import { SentMessages } from "./sent_messages.ts";
import { TaskRows } from "./task_rows.ts";

export const HISTORY_MS = LIMITS.historyDays * DAY_MS;

export interface StoreOptions extends ReceivedOptions {
  newId: NewId;
  /** How long the texts of read and sent messages are kept; default: `historyDays`. */
  historyMs?: number | undefined;
  /** Called when the file turns out to be damaged, also from the middle of work. A retry cannot help. */
  onDamaged(error: unknown): void;
}

export class ConnectorStore implements Disposable {
  readonly received: ReceivedMessages;
  readonly sent: SentMessages;
  readonly receipts: ReceiptRows;
  readonly tasks: TaskRows;
  readonly proofs: SeenProofs;
  readonly pairSecrets: PairSecrets;
  readonly pairConfirmations: PairConfirmations;

  readonly historyMs: number;

  constructor(readonly database: Database, options: StoreOptions) {
    const { onChange, onDamaged, newId, historyMs = HISTORY_MS } = options;
    this.historyMs = historyMs;
    database.onDamaged = onDamaged;
    this.receipts = new ReceiptRows(database, onChange, newId);
    this.sent = new SentMessages(database, onChange);
    this.tasks = new TaskRows(database);
    this.proofs = new SeenProofs(database);
    this.pairSecrets = new PairSecrets(database);
    this.pairConfirmations = new PairConfirmations(database);
    this.received = new ReceivedMessages(database, this, options);
  }

  /** @throws as `Database.open` */
  static open(path: string, options: StoreOptions): ConnectorStore {
    return new ConnectorStore(Database.open(path), options);
  }

  /** Remembers a probe's proof, so that nothing answers it twice, and adds its receipt. No message is stored. */
  answerProbe(
    probe: ProvenMessage,
    now: number,
    hasReceipt: boolean,
  ): "probed" | "known" | "replayed" | "proof_too_old" {
    const { fromAgentDid: fromDid, requestId, nonce, signedAt, bodySha256, payloadSha256, conversationId } = probe;
    const proof = { fromDid, requestId, nonce, signedAt };
    return this.database.transaction(() => {
      const judged = this.proofs.judge(proof);
      if (judged !== "new") return judged;
      this.proofs.add(proof);
      const sealed = payloadSha256 === undefined ? {} : { payloadSha256 };
      const about = { nonce, bodySha256, ...sealed, ...conversationId === undefined ? {} : { conversationId } };
      if (hasReceipt) this.receipts.add({ fromDid, requestId, status: "processed_by_svc", at: now, about });
      return "probed";
    });
  }

  /** Runs `work` in one transaction: all of it is on disk when this returns, or none of it after an error. */
  transaction<T>(work: () => T): T {
    return this.database.transaction(work);
  }

  /** Ends what an earlier run left open: requests under way, and messages for callers that waited. */
  recover(now: number): void {
    this.sent.markInterrupted(now);
    this.received.releaseHeld();
  }

  /** Blanks the texts of read messages and of sent ones that have ended, of a peer or of all. Returns how many. */
  forgetTexts(did: string | null): number {
    return this.transaction(() => this.received.blank(did) + this.sent.blank(did));
  }

  [Symbol.dispose](): void {
    this.database.close();
  }
}
