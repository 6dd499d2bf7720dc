/**
 * fast-check arbitraries that several tests of `shared/protocol` use. JSON is generated as text, not as values: with
 * unusual white space, escapes, numbers and duplicate keys.
 */
import fc from "fast-check";

/** Any ULID. */
export const ulid = fc.stringMatching(/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/);

/** A host name that an issuer can have: DNS labels of which the last is not a number. */
export const authority = fc.array(fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?$/), {
  minLength: 1,
  maxLength: 5,
}).map((labels) => labels.map((label) => label.replace(/^xn--/, "a")).join("."))
  .filter((host) => !/(^|\.)(\d+|0x[0-9a-f]*)$/.test(host));

/** DID of an agent. */
export const agentDid = fc.tuple(authority, ulid).map(([host, id]) => `did:svc:${host}:agent:${id}`);
/** DID of a human. */
export const humanDid = fc.tuple(authority, ulid).map(([host, id]) => `did:svc:${host}:human:${id}`);

/**
 * Text of any code points, half of them below U+0300. `fc.string({ unit: "binary" })` first builds a table of all characters,
 * which takes seconds.
 */
export const codePointsUpTo = (maxLength: number) =>
  fc.array(
    fc.oneof(fc.integer({ min: 0, max: 0x2ff }), fc.integer({ min: 0, max: 0x10ffff })),
    { maxLength },
  ).map((points) => String.fromCodePoint(...points.filter((point) => point < 0xd800 || point > 0xdfff)));

export const codePoints = codePointsUpTo(20);

/** Text of any UTF-16 units, lone surrogates among them. */
export const anyText = fc.oneof(
  fc.string(),
  codePoints,
  fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
);

/** An address with any path. `fc.webUrl()` first builds the same table. */
export const webAddress = fc.tuple(
  fc.constantFrom("http", "https"),
  fc.domain(),
  fc.constantFrom("", ":8443"),
  fc.oneof(fc.constant(""), anyText.map((text) => `/${text}`)),
).map(([scheme, host, port, path]) => `${scheme}://${host}${port}${path}`);

/** White space between JSON tokens, mostly empty. */
export const space = fc.constantFrom("", "", "", "", " ", "\n", "\t ", "\r\n  ");

/** A JSON string literal, plain or with every unit escaped. */
export const jsonString = fc.oneof(
  anyText.map((text) => JSON.stringify(text)),
  fc.string({ maxLength: 6 }).map((text) => `"${text.split("").map(escapeUnit).join("")}"`),
);

const scalar = fc.oneof(
  jsonString,
  fc.constantFrom("null", "true", "false", "0", "-0", "1.0", "1e400", "-1E-7", "12345678901234567890", '"{\\"a\\":1}"'),
  fc.integer().map(String),
);

/** The text of a key, from a small set so that duplicates occur. */
export const jsonKey = fc.oneof(
  fc.constantFrom('"a"', '"\\u0061"', '"message"', '"mess\\u0061ge"', '"__proto__"', '"constructor"', '""', '":,{"'),
  jsonString,
);

/** A JSON text of any kind. */
export const jsonText: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    scalar,
    fc.tuple(space, fc.array(fc.tuple(space, tie("value"), space), { maxLength: 4 }))
      .map(([inner, items]) => `[${items.length ? items.map((item) => item.join("")).join(",") : inner}]`),
    fc.tuple(space, fc.array(fc.tuple(space, jsonKey, space, space, tie("value"), space), { maxLength: 4 }))
      .map(([inner, members]) => `{${members.length ? members.map(memberText).join(",") : inner}}`),
  ),
})).value;

/** One member of an object: white space, key, white space, white space, value, white space. */
export type MemberText = [string, string, string, string, string, string];

/** A member's text. */
export function memberText([before, key, afterKey, beforeValue, value, after]: MemberText): string {
  return `${before}${key}${afterKey}:${beforeValue}${value}${after}`;
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
