/** What instances say to each other, over a link or as notes in the store. */
import type { PairingProfile } from "../../shared/protocol/api/pairing.ts";
import type { HookAnswer } from "../../shared/protocol/api/relay.ts";
import type { Envelope } from "../schema/records.ts";
import type { DeliveryNews } from "./connected_agents.ts";
import type { Attempt } from "../message/deliveries.ts";
import type { MailboxRefusal } from "./mailbox.ts";

export type ForwardResult =
  | { result: "acked"; accepted: boolean; reason?: string; connectedSockets: number }
  | { result: "queued"; answer: HookAnswer }
  | { result: "full"; refusal: MailboxRefusal }
  | { result: "failed" }
  | { result: "offline" };
export const FAILED = { result: "failed" } as const, OFFLINE = { result: "offline" } as const;

/** A message on its way to another instance, without its content. */
export interface MessageNote {
  kind: "message";
  id: string;
  message: Envelope;
  queueFor: string | null;
  /** Names the instance that gets the result. */
  attempt: Attempt;
}

/** What a commit has stored of senders. The bytes of the note are their records, in order. Only links carry it. */
export interface SendersNote {
  kind: "senders";
  senders: { agentDid: string; versionstamp: string; bytes: number }[];
}

export type Note =
  | MessageNote
  | { kind: "dispatched"; id: string; dispatched: ForwardResult }
  | { kind: "asked"; from: string; ids: string[] }
  | { kind: "moved"; agentDid: string }
  | { kind: "kick"; agentDid: string }
  | { kind: "paired"; agentDid: string; peerAgentDid: string; profile: PairingProfile; proxy?: string | undefined }
  | { kind: "delivery"; agentDid: string; news: DeliveryNews }
  | SendersNote;
