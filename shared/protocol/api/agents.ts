/** Wire bodies of agents: challenge, registration, the record (D-38 to D-41). */
import * as z from "zod";
import type { Shape } from "../shape.ts";
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
export interface AgentPath {
  id: string;
}
/** Shape of `AgentPath`. */
export const AgentPath: Shape<AgentPath> = z.object({ id: Ulid });

/** Body of `POST /v1/agents/challenge`. */
export interface ChallengeBody {
  publicKey: string;
}
/** Shape of `ChallengeBody`. */
export const ChallengeBody: Shape<ChallengeBody> = z.object({ publicKey: PublicKey });

/** Answer of `POST /v1/agents/challenge`. */
export interface Challenge {
  challengeId: string;
  nonce: string;
  ownerDid: string;
  expiresAt: string;
  algorithm: "Ed25519";
  messageTemplate: string;
}
/** Shape of `Challenge`. */
export const Challenge: Shape<Challenge> = z.object({
  challengeId: Ulid,
  /** base64url of 24 random bytes. */
  nonce: z.string(),
  ownerDid: HumanDid,
  expiresAt: IsoTime,
  algorithm: z.literal("Ed25519"),
  messageTemplate: z.string(),
});

/** Body of `POST /v1/agents`; `framework` and `ttlDays` stay absent when left out, since the proof covers that. */
export interface RegisterBody {
  name: string;
  publicKey: string;
  challengeId: string;
  challengeSignature: string;
  framework?: string | undefined;
  ttlDays?: number | undefined;
}
/** Shape of `RegisterBody`. */
export const RegisterBody: Shape<RegisterBody> = z.object({
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
export interface Agent {
  id: string;
  did: string;
  ownerDid: string;
  name: string;
  framework: string;
  publicKey: string;
  currentJti: string;
  ttlDays: number;
  status: "active" | "revoked";
  expiresAt: string;
  createdAt: string;
  updatedAt: string;
}
/** Shape of `Agent`. */
export const Agent: Shape<Agent> = z.object({
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

/** Answer of `POST /v1/agents`. */
export interface RegisterAnswer {
  agent: Agent;
  ait: string;
  agentAuth: AgentAuth;
}
/** Shape of `RegisterAnswer`. */
export const RegisterAnswer: Shape<RegisterAnswer> = z.object({ agent: Agent, ait: z.string(), agentAuth: AgentAuth });

/** Answer of `POST /v1/agents/:id/reissue`; `agentAuth` when the agent had no live session (D-40). */
export interface ReissueAnswer {
  agent: Agent;
  ait: string;
  agentAuth?: AgentAuth | undefined;
}
/** Shape of `ReissueAnswer`. */
export const ReissueAnswer: Shape<ReissueAnswer> = z.object({
  agent: Agent,
  ait: z.string(),
  agentAuth: AgentAuth.optional(),
});

/** Answer of `GET /v1/agents/:id`. */
export interface AgentAnswer {
  agent: Agent;
}
/** Shape of `AgentAnswer`. */
export const AgentAnswer: Shape<AgentAnswer> = z.object({ agent: Agent });

/** Query of `GET /v1/agents`. */
export interface AgentListQuery {
  status?: "active" | "revoked" | undefined;
  framework?: string | undefined;
  limit: number;
  cursor?: string | undefined;
}
/** Shape of `AgentListQuery`. */
export const AgentListQuery: Shape<AgentListQuery> = z.object({
  status: ActiveOrRevoked.optional(),
  framework: FrameworkAsSent.optional(),
  limit: PageLimit.default(LIMITS.agentListDefault),
  cursor: Ulid.optional(),
});

/** An agent as it is listed; `expires` is when its AIT does. */
export interface AgentSummary {
  id: string;
  did: string;
  name: string;
  status: "active" | "revoked";
  expires: string;
}
/** Shape of `AgentSummary`. */
export const AgentSummary: Shape<AgentSummary> = z.object({
  id: Ulid,
  did: AgentDid,
  name: z.string(),
  status: ActiveOrRevoked,
  expires: IsoTime,
});

/** Answer of `GET /v1/agents`, newest first. */
export interface AgentList {
  agents: AgentSummary[];
  pagination: {
    limit: number;
    nextCursor: string | null;
  };
}
/** Shape of `AgentList`. */
export const AgentList: Shape<AgentList> = z.object({
  agents: z.array(AgentSummary),
  pagination: Pagination,
});

/** Answer of `GET /v1/resolve/:id`: what anybody may know of an agent. */
export interface ResolvedAgent {
  did: string;
  name: string;
  framework: string;
  status: "active" | "revoked";
  ownerDid: string;
}
/** Shape of `ResolvedAgent`. */
export const ResolvedAgent: Shape<ResolvedAgent> = z.object({
  did: AgentDid,
  name: z.string(),
  framework: z.string(),
  status: ActiveOrRevoked,
  ownerDid: HumanDid,
});
