/**
 * Shows the error class and the error envelope: the status comes from the table, details are shown on request
 * only. `spec_tables_test.ts` compares the table with the requirements.
 */
import { assert, assertEquals, assertInstanceOf, assertMatch, assertThrows } from "@std/assert";
import { type ErrorCode, errorEnvelope, ERRORS, isErrorCode, ServiceError } from "../../../shared/protocol/errors.ts";

type OneStatus = Exclude<ErrorCode, "AGENT_AUTH_REFRESH_INVALID">;
const rows = Object.entries(ERRORS);
const CODES = Object.keys(ERRORS) as ErrorCode[];

Deno.test("a service error takes its status from the table", () => {
  for (const code of CODES) {
    if (code === "AGENT_AUTH_REFRESH_INVALID") continue;
    const error = new ServiceError(code);
    assertEquals([error.code, error.status], [code, ERRORS[code].status]);
    assertInstanceOf(error, Error);
    assertEquals([error.name, error.details, error.headers, error.cause], ["ServiceError", undefined, {}, undefined]);
  }
});

Deno.test("one code has two statuses, and the caller that throws it chooses one", () => {
  const two = rows.filter(([, { status }]) => typeof status !== "number").map(([code]) => code);
  assertEquals(two, ["AGENT_AUTH_REFRESH_INVALID"]);
  for (const status of [400, 401] as const) {
    assertEquals(new ServiceError("AGENT_AUTH_REFRESH_INVALID", { status }).status, status);
  }
});

Deno.test("a service error does not compile for an unknown code or without a choice of two statuses", () => {
  // @ts-expect-error: the code is not in the table
  assertThrows(() => new ServiceError("NO_SUCH_CODE"));
  // @ts-expect-error: the status must be chosen
  new ServiceError("AGENT_AUTH_REFRESH_INVALID");
  // @ts-expect-error: neither of the two
  new ServiceError("AGENT_AUTH_REFRESH_INVALID", { status: 409 });
});

Deno.test("a service error carries message, details, headers and cause", () => {
  const cause = new Error("inside");
  const details = { fieldErrors: { name: ["must be text"] }, formErrors: [] };
  const error = new ServiceError("RATE_LIMIT_EXCEEDED", {
    message: "Slow down",
    details,
    headers: { "Retry-After": "7" },
    cause,
  });
  assertEquals(error.message, "Slow down");
  assertEquals(error.details, details);
  assertEquals(error.headers, { "Retry-After": "7" });
  assert(error.cause === cause);
});

Deno.test("the error envelope is exactly code and message", () => {
  for (const code of CODES as OneStatus[]) {
    const envelope = errorEnvelope(new ServiceError(code), true);
    assertEquals(Object.keys(envelope), ["error"]);
    assertEquals(Object.keys(envelope.error), ["code", "message"]);
    assertEquals(envelope.error.code, code);
    assertMatch(envelope.error.message, /^\S.*[^.\s]$/);
  }
});

Deno.test("the error envelope shows details only on request, and never the cause", () => {
  const details = { fieldErrors: { name: ["must be text"] }, formErrors: ["one is missing"] };
  const error = new ServiceError("INVITE_CREATE_INVALID", { message: "Bad", details, cause: new Error("secret") });
  const hidden = { error: { code: "INVITE_CREATE_INVALID", message: "Bad" } };
  assertEquals(JSON.stringify(errorEnvelope(error, false)), JSON.stringify(hidden));
  assertEquals(
    JSON.stringify(errorEnvelope(error, true)),
    JSON.stringify({ error: { ...hidden.error, details } }),
  );
});

Deno.test("the error envelope has the condition of the table when there is no other message", () => {
  for (const code of CODES as OneStatus[]) {
    const { message } = errorEnvelope(new ServiceError(code), false).error;
    assertEquals(message.slice(1), ERRORS[code].when.slice(1));
    assertEquals(message.charAt(0), ERRORS[code].when.charAt(0).toUpperCase());
  }
});

Deno.test("the error code check is true for the codes of the table only", () => {
  for (const code of CODES) assert(isErrorCode(code));
  for (const text of ["", "constructor", "toString", "__proto__", "hasOwnProperty", "not_found", "NOT_FOUND "]) {
    assertEquals(isErrorCode(text), false);
  }
});

Deno.test("the error table has a condition and a fix for every code, and error statuses only", () => {
  for (const [code, { status, when, fix }] of rows) {
    assertMatch(code, /^[A-Z]+(_[A-Z]+)+$/);
    assert(when.trim() !== "" && fix.trim() !== "", code);
    for (const one of typeof status === "number" ? [status] : status) assert(one >= 400 && one < 600, code);
  }
});

Deno.test("the error table cannot be changed", () => {
  assertThrows(() => Object.assign(ERRORS, { NOT_FOUND: null }), TypeError);
});
