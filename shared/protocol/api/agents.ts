/** Wire bodies of agents: challenge, registration, the record (D-38 to D-41). */
import * as z from "zod";
import { fromBase64Url } from "../base64url.ts";
import { LIMITS } from "../limits.ts";
import {
  ActiveOrRevoked,
  AgentDid,
  AgentName,
  FrameworkAsSent,
  HumanDid,
  IsoTime,
  PageLimit,
  Pagination,
  PublicKey,
  Ulid,
} from "./fields.ts";
import { AgentAuth } from "./sessions.ts";

/** Path of `/v1/agents/:id` and below. */
export const AgentPath = z.object({ id: Ulid });

/** Body of `POST /v1/agents/challenge`. */
export const ChallengeBody = z.object({ publicKey: PublicKey });

/** Answer of `POST /v1/agents/challenge`. */
export const Challenge = z.object({
  challengeId: Ulid,
  /** base64url of 24 random bytes. */
  nonce: z.string(),
  ownerDid: HumanDid,
  expiresAt: IsoTime,
  algorithm: z.literal("Ed25519"),
  messageTemplate: z.string(),
});
export type Challenge = z.infer<typeof Challenge>;

/** Body of `POST /v1/agents`; `framework` and `ttlDays` stay absent when left out, since the proof covers that. */
export const RegisterBody = z.object({
  name: AgentName,
  publicKey: PublicKey,
  challengeId: Ulid,
  challengeSignature: z.string().refine(
    (text) => fromBase64Url(text)?.length === LIMITS.signatureBytes,
    "must be base64url of 64 bytes",
  ),
  framework: FrameworkAsSent.optional(),
  ttlDays: z.int().min(LIMITS.aitTtlDaysMin).max(LIMITS.aitTtlDaysMax).optional(),
});

/** The full record of an agent. */
export const Agent = z.object({
  id: Ulid,
  did: AgentDid,
  ownerDid: HumanDid,
  name: z.string(),
  framework: z.string(),
  publicKey: z.string(),
  currentJti: Ulid,
  ttlDays: z.int(),
  status: ActiveOrRevoked,
  /** When the current AIT expires. */
  expiresAt: IsoTime,
  createdAt: IsoTime,
  updatedAt: IsoTime,
});
export type Agent = z.infer<typeof Agent>;

/** Answer of `POST /v1/agents`. */
export const RegisterAnswer = z.object({ agent: Agent, ait: z.string(), agentAuth: AgentAuth });
export type RegisterAnswer = z.infer<typeof RegisterAnswer>;

/** Answer of `POST /v1/agents/:id/reissue`; `agentAuth` when the agent had no live session (D-40). */
export const ReissueAnswer = z.object({ agent: Agent, ait: z.string(), agentAuth: AgentAuth.optional() });
export type ReissueAnswer = z.infer<typeof ReissueAnswer>;

/** Answer of `GET /v1/agents/:id`. */
export const AgentAnswer = z.object({ agent: Agent });

/** Query of `GET /v1/agents`. */
export const AgentListQuery = z.object({
  status: ActiveOrRevoked.optional(),
  framework: FrameworkAsSent.optional(),
  limit: PageLimit.default(LIMITS.agentListDefault),
  cursor: Ulid.optional(),
});

/** An agent as it is listed; `expires` is when its AIT does. */
export const AgentSummary = z.object({
  id: Ulid,
  did: AgentDid,
  name: z.string(),
  status: ActiveOrRevoked,
  expires: IsoTime,
});
export type AgentSummary = z.infer<typeof AgentSummary>;

/** Answer of `GET /v1/agents`, newest first. */
export const AgentList = z.object({
  agents: z.array(AgentSummary),
  pagination: Pagination,
});
export type AgentList = z.infer<typeof AgentList>;

/** Answer of `GET /v1/resolve/:id`: what anybody may know of an agent. */
export const ResolvedAgent = z.object({
  did: AgentDid,
  name: z.string(),
  framework: z.string(),
  status: ActiveOrRevoked,
  ownerDid: HumanDid,
});
export type ResolvedAgent = z.infer<typeof ResolvedAgent>;
