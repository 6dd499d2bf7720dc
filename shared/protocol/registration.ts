/**
 * The registration message that a new agent signs to prove possession of its private key. It names every registered
 * value, so that none can be changed on the way.
 */

/** The values of the registration request, as sent. */
export interface RegistrationFields {
  /** ULID of the challenge. */
  challengeId: string;
  /** Nonce of the challenge. */
  nonce: string;
  ownerDid: string;
  /** Ed25519 public key, base64url of 32 bytes. */
  publicKey: string;
  /** Name of the agent. */
  name: string;
  /** Framework label, if the request has one. */
  framework?: string | undefined;
  /** Lifetime of the AIT in days, if the request has one. */
  ttlDays?: number | undefined;
}

/** The message with `{challengeId}`, `{nonce}` … in place of the values: `messageTemplate` of a challenge. */
export const REGISTRATION_TEMPLATE: string = [
  "svc.register.v1",
  ...["challengeId", "nonce", "ownerDid", "publicKey", "name", "framework", "ttlDays"].map((f) => `${f}:{${f}}`),
].join("\n");

/**
 * Returns the eight lines that are signed. Absent `framework` and `ttlDays` are empty.
 *
 * @throws {TypeError} when a value contains a line feed
 */
export function registrationMessage(fields: RegistrationFields): string {
  const lines = [
    "svc.register.v1",
    `challengeId:${fields.challengeId}`,
    `nonce:${fields.nonce}`,
    `ownerDid:${fields.ownerDid}`,
    `publicKey:${fields.publicKey}`,
    `name:${fields.name}`,
    `framework:${fields.framework ?? ""}`,
    `ttlDays:${fields.ttlDays ?? ""}`,
  ];
  if (lines.some((line) => line.includes("\n"))) {
    throw new TypeError("Cannot build the registration message: a value holds a line feed");
  }
  return lines.join("\n");
}
