/**
 * What a refusal by the services means for a connector: put something right and try again, wait, or stop, because only a
 * person can help. One table; pure.
 */
import { ApiError, UnreachableError } from "../../errors.ts";

/** What is to be done. */
export type Remedy =
  /** The access token is not good: read the files again, else refresh. */
  | "renew_access"
  /** The identity is not good: read the files again; when they are the same, it is for a person. */
  | "renew_identity"
  /** Our clock is wrong: take the service's. */
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
  // The registry says so of a clock that is off, too.
  AGENT_AUTH_REFRESH_UNAUTHORIZED: "adjust_clock",
};

/** What to do about an error of a call to a service. */
export function remedyOf(error: unknown): Remedy {
  if (!(error instanceof ApiError) || error.code === null) return "wait";
  return Object.hasOwn(REMEDIES, error.code) ? REMEDIES[error.code] ?? "wait" : "wait";
}

/** Whether to stop when the remedy did not help: nothing but a person's hand will change the answer. */
export function isPermanent(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  return HOPELESS.has(error.code ?? "");
}

/** `…_INVALID_AIT` and `…_INVALID_PROOF` are not among them: a proxy that has just got new keys answers so for a while. */
const HOPELESS = new Set([
  "PROXY_AUTH_REVOKED",
  "AGENT_AUTH_REFRESH_REVOKED",
  "AGENT_AUTH_REFRESH_EXPIRED",
  "AGENT_AUTH_REFRESH_INVALID",
]);

/** An error in one line. */
export function describeError(error: unknown): string {
  if (error instanceof ApiError) {
    const said = error.code === null ? error.message : `${error.code}: ${error.message}`;
    return error.fix === undefined ? said : `${said}. ${error.fix}`;
  }
  if (error instanceof UnreachableError && error.fix !== undefined) return `${error.message}. ${error.fix}`;
  return error instanceof Error ? error.message : String(error);
}
