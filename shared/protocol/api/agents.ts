/** Request and response bodies of agents: challenge, registration, the record (D-38 to D-41). */
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
  /** ULID of the record. */
  id: string;
}
/** Schema of `AgentPath`. */
export const AgentPath: Shape<AgentPath> = z.object({ id: Ulid });

/** Body of `POST /v1/agents/challenge`. */
export interface ChallengeBody {
  /** Ed25519 public key, base64url of 32 bytes. */
  publicKey: string;
}
/** Schema of `ChallengeBody`. */
export const ChallengeBody: Shape<ChallengeBody> = z.object({ publicKey: PublicKey });

/** Response of `POST /v1/agents/challenge`. */
export interface Challenge {
  /** ULID of the challenge. */
  challengeId: string;
  /** base64url of 24 random bytes. */
  nonce: string;
  /** DID of the caller. */
  ownerDid: string;
  /** Time of expiry, ISO 8601. */
  expiresAt: string;
  /** Algorithm of the signature. */
  algorithm: "Ed25519";
  /** Text to sign, with placeholders for the values. */
  messageTemplate: string;
}
/** Schema of `Challenge`. */
export const Challenge: Shape<Challenge> = z.object({
  challengeId: Ulid,
  /** base64url of 24 random bytes. */
  nonce: z.string(),
  ownerDid: HumanDid,
  expiresAt: IsoTime,
  algorithm: z.literal("Ed25519"),
  messageTemplate: z.string(),
});

/** Body of `POST /v1/agents`; absent `framework` and `ttlDays` stay absent, because the signed message distinguishes them. */
export interface RegisterBody {
  /** Name of the agent. */
  name: string;
  /** Ed25519 public key, base64url of 32 bytes. */
  publicKey: string;
  /** ULID of the challenge. */
  challengeId: string;
  /** Signature of the registration message, base64url of 64 bytes. */
  challengeSignature: string;
  /** Framework label (default `generic`). */
  framework?: string | undefined;
  /** Lifetime of the AIT, 1 to 90 days (default 30). */
  ttlDays?: number | undefined;
}
/** Schema of `RegisterBody`. */
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
  /** ULID of the record. */
  id: string;
  /** DID of the agent. */
  did: string;
  /** DID of the agent's owner. */
  ownerDid: string;
  /** Name of the agent. */
  name: string;
  /** Framework label. */
  framework: string;
  /** Ed25519 public key, base64url of 32 bytes. */
  publicKey: string;
  /** `jti` of the current AIT. */
  currentJti: string;
  /** Lifetime of the AIT, days. */
  ttlDays: number;
  /** Present status. */
  status: "active" | "revoked";
  /** Time at which the current AIT expires, ISO 8601. */
  expiresAt: string;
  /** Time of creation, ISO 8601. */
  createdAt: string;
  /** Time of the last change, ISO 8601. */
  updatedAt: string;
}
/** Schema of `Agent`. */
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

/** Response of `POST /v1/agents`. */
export interface RegisterAnswer {
  /** The agent. */
  agent: Agent;
  /** The identity token, a compact JWS. */
  ait: string;
  /** Tokens of the agent's session. */
  agentAuth: AgentAuth;
}
/** Schema of `RegisterAnswer`. */
export const RegisterAnswer: Shape<RegisterAnswer> = z.object({ agent: Agent, ait: z.string(), agentAuth: AgentAuth });

/** Response of `POST /v1/agents/:id/reissue`; `agentAuth` when the agent had no live session (D-40). */
export interface ReissueAnswer {
  /** The agent. */
  agent: Agent;
  /** The identity token, a compact JWS. */
  ait: string;
  /** Tokens of a new session; absent when the agent has a live session. */
  agentAuth?: AgentAuth | undefined;
}
/** Schema of `ReissueAnswer`. */
export const ReissueAnswer: Shape<ReissueAnswer> = z.object({
  agent: Agent,
  ait: z.string(),
  agentAuth: AgentAuth.optional(),
});

/** Response of `GET /v1/agents/:id`. */
export interface AgentAnswer {
  /** The agent. */
  agent: Agent;
}
/** Schema of `AgentAnswer`. */
export const AgentAnswer: Shape<AgentAnswer> = z.object({ agent: Agent });

/** Query of `GET /v1/agents`. */
export interface AgentListQuery {
  /** Only agents with this status. */
  status?: "active" | "revoked" | undefined;
  /** Only agents with this framework label. */
  framework?: string | undefined;
  /** Records per page. */
  limit: number;
  /** `nextCursor` of the previous page. */
  cursor?: string | undefined;
}
/** Schema of `AgentListQuery`. */
export const AgentListQuery: Shape<AgentListQuery> = z.object({
  status: ActiveOrRevoked.optional(),
  framework: FrameworkAsSent.optional(),
  limit: PageLimit.default(LIMITS.agentListDefault),
  cursor: Ulid.optional(),
});

/** An agent as it is listed; `expires` is when its AIT does. */
export interface AgentSummary {
  /** ULID of the record. */
  id: string;
  /** DID of the agent. */
  did: string;
  /** Name of the agent. */
  name: string;
  /** Present status. */
  status: "active" | "revoked";
  /** Time at which the current AIT expires, ISO 8601. */
  expires: string;
}
/** Schema of `AgentSummary`. */
export const AgentSummary: Shape<AgentSummary> = z.object({
  id: Ulid,
  did: AgentDid,
  name: z.string(),
  status: ActiveOrRevoked,
  expires: IsoTime,
});

/** Response of `GET /v1/agents`, newest first. */
export interface AgentList {
  /** One page of agents. */
  agents: AgentSummary[];
  /** Position in the list. */
  pagination: {
    limit: number;
    nextCursor: string | null;
  };
}
/** Schema of `AgentList`. */
export const AgentList: Shape<AgentList> = z.object({
  agents: z.array(AgentSummary),
  pagination: Pagination,
});

/** Response of `GET /v1/resolve/:id`: the public data of an agent. */
export interface ResolvedAgent {
  /** DID of the agent. */
  did: string;
  /** Name of the agent. */
  name: string;
  /** Framework label. */
  framework: string;
  /** Present status. */
  status: "active" | "revoked";
  /** DID of the agent's owner. */
  ownerDid: string;
}
/** Schema of `ResolvedAgent`. */
export const ResolvedAgent: Shape<ResolvedAgent> = z.object({
  did: AgentDid,
  name: z.string(),
  framework: z.string(),
  status: ActiveOrRevoked,
  ownerDid: HumanDid,
});
