/** Wire bodies of agent sessions: refresh and validate (D-42 to D-45). */
import * as z from "zod";
import { AgentDid, IsoTime, Ulid } from "./fields.ts";

/** Tokens of an agent's session; both are shown this once. */
export const AgentAuth = z.object({
  tokenType: z.literal("Bearer"),
  accessToken: z.string(),
  accessExpiresAt: IsoTime,
  refreshToken: z.string(),
  refreshExpiresAt: IsoTime,
});
export type AgentAuth = z.infer<typeof AgentAuth>;

/** Body of `POST /v1/agents/auth/refresh`; `recovery` after a lost answer. */
export const RefreshBody = z.object({
  refreshToken: z.string().min(1).max(256),
  recovery: z.boolean().default(false),
});

/** Answer of `POST /v1/agents/auth/refresh`. */
export const RefreshAnswer = z.object({ agentAuth: AgentAuth });
export type RefreshAnswer = z.infer<typeof RefreshAnswer>;

/** Body of `POST /v1/agents/auth/validate`. */
export const ValidateBody = z.object({ agentDid: AgentDid, aitJti: Ulid });
