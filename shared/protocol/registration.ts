/**
 * The registration message, which a new agent signs to prove possession of its private key. It names every registered
 * value, because a value that it left out could be changed on the way.
 */

const FIELDS = ["challengeId", "nonce", "ownerDid", "publicKey", "name", "framework", "ttlDays"] as const;

/** The values of the registration request, as sent. For an absent `framework` or `ttlDays`, the line has no value. */
export type RegistrationFields = Record<Exclude<(typeof FIELDS)[number], "framework" | "ttlDays">, string> & {
  framework?: string | undefined;
  ttlDays?: number | undefined;
};

/** The message with `{challengeId}`, `{nonce}` … in place of the values. It is the `messageTemplate` of a challenge. */
export const REGISTRATION_TEMPLATE: string = messageOf((field) => `{${field}}`);

/** Returns the eight lines that are signed. @throws {TypeError} when a value contains a line feed */
export function registrationMessage(fields: RegistrationFields): string {
  if (FIELDS.some((field) => String(fields[field]).includes("\n"))) {
    throw new TypeError("Cannot build the registration message: a value holds a line feed");
  }
  return messageOf((field) => fields[field] ?? "");
}

function messageOf(valueOf: (field: (typeof FIELDS)[number]) => string | number): string {
  return ["svc.register.v1", ...FIELDS.map((field) => `${field}:${valueOf(field)}`)].join("\n");
}
