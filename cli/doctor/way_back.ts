/** The commands that lead back from a state of an agent that no retry ends, for `provider doctor`. Pure. */
import { TAKEN_OVER } from "../link/reconnect.ts";

/** What a registry says of an agent: its status, or that it has none. */
export type Registered = "active" | "revoked" | "unknown";

/** The way back of an agent that was deleted, or made after the backup with which its registry goes on. */
export function againFrom(name: string): string {
  return `Make it again: svc agent delete ${name}, then svc agent create ${name}, and pair it by new tickets`;
}

function newSession(name: string): string {
  return `svc agent auth revoke ${name}, then svc agent reissue ${name}`;
}

/** The way back from why a connector has no link; `null` when it comes back by itself, or no command is known. */
export function wayBack(name: string, problem: string | null): string | null {
  if (problem === null) return null;
  if (problem.startsWith(TAKEN_OVER)) {
    return `A copy of ${name} runs. Stop one; if you do not know it: ${newSession(name)}`;
  }
  switch (problem.split(":", 1)[0]) {
    case "AGENT_NOT_FOUND":
      return againFrom(name);
    case "PROXY_AUTH_REVOKED":
      return `It was reissued elsewhere, or its files are an old copy: svc agent reissue ${name}`;
    case "AGENT_AUTH_REFRESH_REVOKED":
      return `svc agent reissue ${name}`;
    case "AGENT_AUTH_REFRESH_INVALID":
      return `If a copy of ${name} runs elsewhere, stop it. Then ${newSession(name)}`;
    case "AGENT_AUTH_REFRESH_EXPIRED":
    case "AGENT_AUTH_REFRESH_UNAUTHORIZED":
      return newSession(name);
    case "ACCOUNT_SUSPENDED":
      return "Ask the administrator of the registry; then it comes back by itself";
    default:
      return null;
  }
}
