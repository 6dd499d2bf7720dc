/** What a service's refusal means for a connector: repair the cause and try again, wait, or stop. */
import { ApiError, UnreachableError } from "./errors.ts";

export type Remedy =
  /** The access token is invalid: read the files again, and refresh the session if they are unchanged. */
  | "renew_access"
  /** The identity is invalid: read the files again. If they are unchanged, only the owner can repair it. */
  | "renew_identity"
  /** This machine's clock is wrong: use the service's time. */
  | "adjust_clock"
  | "wait"
  | "stop";

const REMEDIES: Readonly<Record<string, Remedy>> = {
  PROXY_AGENT_ACCESS_INVALID: "renew_access",
  PROXY_AGENT_ACCESS_REQUIRED: "renew_access",
  PROXY_AUTH_TIMESTAMP_SKEW: "adjust_clock",
  PROXY_AUTH_REVOKED: "renew_identity",
  PROXY_AUTH_INVALID_AIT: "renew_identity",
  PROXY_AUTH_INVALID_PROOF: "renew_identity",
  AGENT_AUTH_REFRESH_REVOKED: "stop",
  AGENT_AUTH_REFRESH_EXPIRED: "stop",
  AGENT_AUTH_REFRESH_INVALID: "stop",
  // The registry uses this code for a wrong clock too, which the connector can correct by itself.
  AGENT_AUTH_REFRESH_UNAUTHORIZED: "adjust_clock",
};

export function remedyOf(error: unknown): Remedy {
  if (!(error instanceof ApiError) || error.code === null) return "wait";
  return REMEDIES[error.code] ?? "wait";
}

/** Tells whether a server refuses an agent that was deleted, or whose token or session has ended. */
export function isRevoked(error: unknown): error is ApiError {
  const code = error instanceof ApiError ? error.code : null;
  return code === "PROXY_AUTH_REVOKED" || code === "AGENT_AUTH_REFRESH_REVOKED";
}

/**
 * Tells whether the connector must stop when the remedy has failed, because a retry would get the same answer. After
 * `…_INVALID_AIT` and `…_INVALID_PROOF` it tries again, because a proxy also sends them until it has new registry keys.
 */
export function isPermanent(error: unknown): boolean {
  return remedyOf(error) === "stop" || isRevoked(error);
}

/**
 * Wait before a connector asks again after a refusal that only the operator can end. With less, twenty agents of a
 * suspended person would use up the refreshes of everyone at their address. With more, they come back long after the
 * restore.
 */
export const OPERATOR_RETRY_MS = 120_000;

/**
 * Tells whether only the operator of the server can end this refusal: the owner's account is suspended, or the server
 * was started with a store that lacks the agent. Afterwards the same files work again.
 */
export function needsOperator(error: unknown): boolean {
  return isSuspension(error) || error instanceof ApiError && error.code === "AGENT_NOT_FOUND";
}

export function isSuspension(error: unknown): error is ApiError {
  return error instanceof ApiError && error.code === "ACCOUNT_SUSPENDED";
}

/** Tells whether the proxy rejects a receipt permanently, so that sending it again is useless. */
export function isReceiptRefused(error: unknown): boolean {
  return error instanceof ApiError && RECEIPT_REFUSALS.has(error.code ?? "");
}

const RECEIPT_REFUSALS: ReadonlySet<string> = new Set([
  "PROXY_RELAY_RECEIPT_INVALID",
  "PROXY_RELAY_RECEIPT_FORBIDDEN",
  "PROXY_RECEIPT_DELIVERY_NOT_FOUND",
]);

/** How the text of the problem begins when two connectors of one agent run. */
export const TAKEN_OVER = "another connector of this agent has taken over";

export function describeError(error: unknown): string {
  if (error instanceof ApiError) {
    const said = error.code === null ? error.message : `${error.code}: ${error.message}`;
    return error.fix === undefined ? said : `${said}. ${error.fix}`;
  }
  if (error instanceof UnreachableError && error.fix !== undefined) return `${error.message}. ${error.fix}`;
  return error instanceof Error ? error.message : String(error);
}
