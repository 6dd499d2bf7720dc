/** An agent's identity for requests, and the proof headers that are signed with it. Nothing is sent here. */
import { toBase64Url, utf8Bytes } from "../../shared/protocol/base64url.ts";
import { proofHeaders, publicOrigin } from "../../shared/protocol/proof.ts";
import { parseAit } from "../../shared/protocol/signed/ait.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import type { Clock } from "../../shared/clock.ts";
import type { Random } from "../../shared/random.ts";

export interface AgentIdentity {
  did: string;
  ait: string;
  privateKey: CryptoKey;
  accessToken: string;
}

/** The proof-of-possession headers of a request, signed now with a new nonce. */
export function signedHeaders(
  deps: { clock: Clock; random: Random },
  agent: Pick<AgentIdentity, "ait" | "privateKey">,
  { method, url, target, body = "", recipient = "" }: {
    method: string;
    url: string;
    target: string;
    body?: string | undefined;
    recipient?: string | undefined;
  },
): Promise<Record<string, string>> {
  return proofHeaders(
    { method, origin: publicOrigin(url), target, body: utf8Bytes(body), recipient },
    agent,
    unixSeconds(deps.clock.now()),
    toBase64Url(deps.random.bytes(18)),
  );
}

/** Returns the registry's public origin from the unverified token; `null` when it names none. */
export function issuerOf(ait: string): string | null {
  try {
    const { iss } = JSON.parse(parseAit(ait).payloadJson) as { iss?: unknown };
    return typeof iss === "string" ? new URL(iss).origin : null;
  } catch {
    return null;
  }
}
