/**
 * The order in which a registration is checked against its challenge: a challenge that is used, expired or of another
 * key is named as that before the proof is looked at, because the client has to do something else in each case. Pure.
 */
import type { ChallengeRecord } from "../schema/records.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { registrationMessage } from "../../shared/protocol/registration.ts";
import { readPublicKey, verify } from "../../shared/server/crypto.ts";

export interface RegistrationRequest {
  name: string;
  publicKey: string;
  challengeId: string;
  challengeSignature: string;
  framework?: string | undefined;
  ttlDays?: number | undefined;
}

/**
 * Checks a registration, in this order: replayed, expired, other key, wrong proof.
 *
 * @throws {ServiceError} `AGENT_REGISTRATION_CHALLENGE_REPLAYED`, `…_CHALLENGE_EXPIRED`, `…_PROOF_MISMATCH`,
 * `…_PROOF_INVALID`
 */
export function checkRegistration(challenge: ChallengeRecord, request: RegistrationRequest, now: number): void {
  if (challenge.usedAt !== null) throw new ServiceError("AGENT_REGISTRATION_CHALLENGE_REPLAYED");
  if (now >= challenge.expiresAt) throw new ServiceError("AGENT_REGISTRATION_CHALLENGE_EXPIRED");
  if (challenge.publicKey !== request.publicKey) throw new ServiceError("AGENT_REGISTRATION_PROOF_MISMATCH");
  const { nonce, ownerDid } = challenge;
  const message = registrationMessage({ ...request, nonce, ownerDid });
  if (!verify(readPublicKey(request.publicKey), request.challengeSignature, utf8Bytes(message))) {
    throw new ServiceError("AGENT_REGISTRATION_PROOF_INVALID");
  }
}
