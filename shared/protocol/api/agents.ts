/** Request and response bodies of agents: challenge, registration and the record of an agent. */
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
  strictQuery,
  Ulid,
} from "./fields.ts";
import { AgentAuth } from "./sessions.ts";

export type ChallengeBody = z.output<typeof ChallengeBody>;
export const ChallengeBody = z.object({ publicKey: PublicKey });

export type Challenge = z.output<typeof Challenge>;
export const Challenge = z.object({
  challengeId: Ulid,
  /** base64url of 24 random bytes. */
  nonce: z.string(),
  ownerDid: HumanDid,
  expiresAt: IsoTime,
  algorithm: z.literal("Ed25519"),
  /** Text to sign, with placeholders for the values. */
  messageTemplate: z.string(),
});

/** An absent `framework` or `ttlDays` stays absent, because the signed message differs from one with the default. */
export type RegisterBody = z.output<typeof RegisterBody>;
export const RegisterBody = z.object({
  name: AgentName,
  publicKey: PublicKey,
  challengeId: Ulid,
  challengeSignature: z.string().refine(
    (text) => fromBase64Url(text)?.length === LIMITS.signatureBytes,
    "must be base64url of 64 bytes",
  ).meta({
    pattern: "^[A-Za-z0-9_-]{85}[AQgw]$",
    examples: ["-Htb2eSXJJoHAXeu_VipZB86a3SaxglfoBW2bzEGUAByz54FDBoXHNihHFlevarE2uGFFRNr69TlhGSOdVMwAA"],
  }),
  /** Default: `DEFAULT_FRAMEWORK` of names.ts. */
  framework: FrameworkAsSent.optional(),
  /** Lifetime of the AIT (default: 30). */
  ttlDays: z.int().min(LIMITS.aitTtlDaysMin).max(LIMITS.aitTtlDaysMax).optional(),
});

export type Agent = z.output<typeof Agent>;
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
  expiresAt: IsoTime,
  createdAt: IsoTime,
  updatedAt: IsoTime,
});

export type RegisterAnswer = z.output<typeof RegisterAnswer>;
export const RegisterAnswer = z.object({ agent: Agent, ait: z.string(), agentAuth: AgentAuth });

/** `agentAuth` is present when the agent had no live session. */
export type ReissueAnswer = z.output<typeof ReissueAnswer>;
export const ReissueAnswer = RegisterAnswer.partial({ agentAuth: true });

export type AgentAnswer = z.output<typeof AgentAnswer>;
export const AgentAnswer = z.object({ agent: Agent });

export type AgentListQuery = z.output<typeof AgentListQuery>;
export const AgentListQuery = strictQuery({
  status: ActiveOrRevoked.optional(),
  framework: FrameworkAsSent.optional(),
  limit: PageLimit.default(LIMITS.agentListDefault),
  cursor: Ulid.optional(),
});

/** An agent in a list. `expires` is the time when its AIT expires. */
export const AgentSummary = Agent.pick({ id: true, did: true, name: true, status: true }).extend({ expires: IsoTime });

/** Newest first. */
export type AgentList = z.output<typeof AgentList>;
export const AgentList = z.object({
  agents: z.array(AgentSummary),
  pagination: Pagination,
});

export type ResolvedAgent = z.output<typeof ResolvedAgent>;
export const ResolvedAgent = Agent.pick({ did: true, name: true, framework: true, status: true, ownerDid: true });
