/** Request and response bodies of agent sessions: refresh and validate (D-42 to D-44). */
import * as z from "zod";
import { AgentDid, IsoTime, Origin, Ulid } from "./fields.ts";

/** Tokens of an agent's session. Both are shown only once. */
export type AgentAuth = z.output<typeof AgentAuth>;
export const AgentAuth = z.object({
  tokenType: z.literal("Bearer"),
  accessToken: z.string(),
  accessExpiresAt: IsoTime,
  /** Works only once. */
  refreshToken: z.string(),
  refreshExpiresAt: IsoTime,
});

/** `recovery` is true after a lost answer. */
export type RefreshBody = z.output<typeof RefreshBody>;
export const RefreshBody = z.object({
  /** The current refresh token; with `recovery`, also the one before it. */
  refreshToken: z.string().min(1).max(256),
  recovery: z.boolean().default(false),
});

export type RefreshAnswer = z.output<typeof RefreshAnswer>;
export const RefreshAnswer = z.object({ agentAuth: AgentAuth });

export type VisitBody = z.output<typeof VisitBody>;
export const VisitBody = z.object({
  /** Origin of the proxy to visit, in its only valid spelling. */
  audience: Origin,
});

export type VisitAnswer = z.output<typeof VisitAnswer>;
export const VisitAnswer = z.object({ token: z.string(), expiresAt: IsoTime });

/** `X-Svc-Agent-Access` of `POST /v1/agents/auth/validate`: the token to check. */
export const AccessHeader = z.string().min(1);

export type ValidateBody = z.output<typeof ValidateBody>;
export const ValidateBody = z.object({ agentDid: AgentDid, aitJti: Ulid });
