/** The credentials that the link and the calls to the proxy use. Where they are stored is the implementation's part. */
import type { AgentIdentity } from "./signed_headers.ts";

/** The current credentials of an agent. */
export interface AgentCredentials {
  /** The identity to sign with. Refreshes it first when its access token is about to expire. */
  current(): Promise<AgentIdentity>;
  /** After a refusal: reads the files again, or refreshes. Returns true when the credentials have changed. */
  renew(what: "access" | "identity"): Promise<boolean>;
  /** Milliseconds since the Unix epoch. */
  readonly accessExpiresAt: number;
  readonly identityExpiresAt: number;
  stop(): void;
}
