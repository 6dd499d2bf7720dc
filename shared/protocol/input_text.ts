/**
 * Texts about invalid input. They name the member and what is expected, but never the value, because it may be a
 * secret. The services and the connector's local API share them.
 */
import type * as z from "zod";

const EXPECTED: Readonly<Record<string, string>> = {
  nonoptional: "any JSON value",
  string: "text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
  null: "null",
};

const UNITS: Readonly<Record<string, string | undefined>> = {
  string: " characters",
  array: " entries",
  object: " members",
};

/** Error map for `safeParse(value, { error: inputText })`. Returns the problem of one member, without its name. */
export function inputText(issue: z.core.$ZodRawIssue): string | undefined {
  const expected = expectationOf(issue);
  if (expected === undefined) return undefined;
  if (issue.input === undefined) return `is missing; expected ${expected}`;
  const isSize = (issue.code === "too_small" || issue.code === "too_big") && UNITS[issue.origin ?? ""] !== undefined;
  return `must ${isSize ? "have" : "be"} ${expected}`;
}

function expectationOf(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case "invalid_type":
      return EXPECTED[issue.expected ?? ""] ?? String(issue.expected);
    case "invalid_value":
      return (issue.values ?? []).map((value) => JSON.stringify(value)).join(" or ");
    case "too_small":
      return `at least ${issue.minimum}${UNITS[issue.origin ?? ""] ?? ""}`;
    case "too_big":
      return `at most ${issue.maximum}${UNITS[issue.origin ?? ""] ?? ""}`;
    case "invalid_format":
      return issue.pattern === undefined ? undefined : `text that matches ${issue.pattern}`;
    case "invalid_union":
      return "one of the forms in the documentation";
    case "unrecognized_keys":
      return unknownMember(issue.keys);
    default:
      return undefined;
  }
}

/** Names of unknown members that a message repeats. Others are left out, because they may be a misplaced secret. */
const PLAIN_NAME = /^[A-Za-z]{1,32}$/;

function unknownMember([name = ""]: readonly string[]): string {
  return PLAIN_NAME.test(name)
    ? `without "${name}", which the documentation does not name`
    : "without members that the documentation does not name";
}

/** Returns one problem as a sentence, such as `to is missing; expected text`. */
export function problemText(issue: { path: readonly PropertyKey[]; message: string }): string {
  return `${issue.path.length === 0 ? "the input" : issue.path.map(String).join(".")} ${issue.message}`;
}

export function firstProblem({ issues: [issue] }: z.ZodError): string {
  return issue === undefined ? "it does not fit" : problemText(issue);
}
