/** Wire bodies of agent sessions: refresh and validate (D-42 to D-45). */
import * as z from "zod";
import type { Shape } from "../shape.ts";
import { AgentDid, IsoTime, Ulid } from "./fields.ts";

/** Tokens of an agent's session; both are shown this once. */
export interface AgentAuth {
  tokenType: "Bearer";
  accessToken: string;
  accessExpiresAt: string;
  refreshToken: string;
  refreshExpiresAt: string;
}
/** Shape of `AgentAuth`. */
export const AgentAuth: Shape<AgentAuth> = z.object({
  tokenType: z.literal("Bearer"),
  accessToken: z.string(),
  accessExpiresAt: IsoTime,
  refreshToken: z.string(),
  refreshExpiresAt: IsoTime,
});

/** Body of `POST /v1/agents/auth/refresh`; `recovery` after a lost answer. */
export interface RefreshBody {
  refreshToken: string;
  recovery: boolean;
}
/** Shape of `RefreshBody`. */
export const RefreshBody: Shape<RefreshBody> = z.object({
  refreshToken: z.string().min(1).max(256),
  recovery: z.boolean().default(false),
});

/** Answer of `POST /v1/agents/auth/refresh`. */
export interface RefreshAnswer {
  agentAuth: AgentAuth;
}
/** Shape of `RefreshAnswer`. */
export const RefreshAnswer: Shape<RefreshAnswer> = z.object({ agentAuth: AgentAuth });

/** Body of `POST /v1/agents/auth/validate`. */
export interface ValidateBody {
  agentDid: string;
  aitJti: string;
}
/** Shape of `ValidateBody`. */
export const ValidateBody: Shape<ValidateBody> = z.object({ agentDid: AgentDid, aitJti: Ulid });
