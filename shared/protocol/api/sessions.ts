/** Request and response bodies of agent sessions: refresh and validate (D-42 to D-45). */
import * as z from "zod";
import type { Shape } from "../shape.ts";
import { AgentDid, IsoTime, Ulid } from "./fields.ts";

/** Tokens of an agent's session; both are shown only once. */
export interface AgentAuth {
  /** Always `Bearer`. */
  tokenType: "Bearer";
  /** Access token, a secret. */
  accessToken: string;
  /** Expiry of the access token, ISO 8601. */
  accessExpiresAt: string;
  /** Refresh token, a secret; single use. */
  refreshToken: string;
  /** Expiry of the refresh token, ISO 8601. */
  refreshExpiresAt: string;
}
/** Schema of `AgentAuth`. */
export const AgentAuth: Shape<AgentAuth> = z.object({
  tokenType: z.literal("Bearer"),
  accessToken: z.string(),
  accessExpiresAt: IsoTime,
  refreshToken: z.string(),
  refreshExpiresAt: IsoTime,
});

/** Body of `POST /v1/agents/auth/refresh`; `recovery` after a lost answer. */
export interface RefreshBody {
  /** The current refresh token, or its predecessor with `recovery`. */
  refreshToken: string;
  /** True when the response to the previous refresh was lost (default false). */
  recovery: boolean;
}
/** Schema of `RefreshBody`. */
export const RefreshBody: Shape<RefreshBody> = z.object({
  refreshToken: z.string().min(1).max(256),
  recovery: z.boolean().default(false),
});

/** Response of `POST /v1/agents/auth/refresh`. */
export interface RefreshAnswer {
  /** Tokens of the agent's session. */
  agentAuth: AgentAuth;
}
/** Schema of `RefreshAnswer`. */
export const RefreshAnswer: Shape<RefreshAnswer> = z.object({ agentAuth: AgentAuth });

/** Body of `POST /v1/agents/auth/validate`. */
export interface ValidateBody {
  /** DID of the agent. */
  agentDid: string;
  /** `jti` of the AIT. */
  aitJti: string;
}
/** Schema of `ValidateBody`. */
export const ValidateBody: Shape<ValidateBody> = z.object({ agentDid: AgentDid, aitJti: Ulid });
