/** Errors of TLS: the texts of `fetch` and the codes of `npm:ws`, as Deno 2.9.6 gives them, with code and reason. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { unreachable } from "../../../shared/client/tls.ts";

const ORIGIN = "https://registry.example.test";
const REFUSED = "CLI_TLS_REFUSED", UNREACHABLE = "CLI_UNREACHABLE";

/** An error of `fetch`, which has the cause of the failure as its cause. */
function ofFetch(text: string): Error {
  const kind = text.startsWith("invalid HTTP") ? "SendRequest" : "Connect";
  const cause = new Error(`error sending request for url (${ORIGIN}/): client error (${kind}): ${text}`);
  return new TypeError("fetch failed", { cause });
}

/** An error of `npm:ws`, which has a code. */
function ofSocket(code: string, text = "x"): Error {
  return Object.assign(new Error(text), { code });
}

const UNKNOWN = "issued by an authority that this machine does not know";
const ROWS: [error: Error, code: string, reason: string, fix: string][] = [
  [ofFetch("invalid peer certificate: UnknownIssuer"), REFUSED, UNKNOWN, "--ca <file>"],
  ...["UNABLE_TO_VERIFY_LEAF_SIGNATURE", "SELF_SIGNED_CERT_IN_CHAIN", "DEPTH_ZERO_SELF_SIGNED_CERT"]
    .map((code): typeof ROWS[number] => [ofSocket(code), REFUSED, UNKNOWN, "--ca <file>"]),
  [ofFetch("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))"), REFUSED, "an authority, not", "CA:FALSE"],
  [ofFetch('invalid peer certificate: certificate not valid for name "x"'), REFUSED, "another name", "Use the name"],
  [ofSocket("ERR_TLS_CERT_ALTNAME_INVALID"), REFUSED, "another name", "Use the name"],
  [ofFetch("invalid peer certificate: certificate expired: x"), REFUSED, "expired, or this machine's clock", "clock"],
  [ofFetch("invalid peer certificate: Expired"), REFUSED, "expired, or this machine's clock", "clock"],
  [ofSocket("CERT_HAS_EXPIRED"), REFUSED, "expired, or this machine's clock", "clock"],
  [
    ofFetch("invalid peer certificate: certificate not valid yet: x"),
    REFUSED,
    "not valid yet, or this machine's",
    "clock",
  ],
  [ofSocket("CERT_NOT_YET_VALID"), REFUSED, "not valid yet, or this machine's", "clock"],
  [ofFetch("invalid peer certificate: BadEncoding"), REFUSED, "not usable (BadEncoding)", "another certificate"],
  [ofFetch("invalid HTTP version parsed"), UNREACHABLE, "if it speaks TLS, use https", ""],
  [ofSocket("HPE_INVALID_CONSTANT", "Parse Error: Expected HTTP/"), UNREACHABLE, "if it speaks TLS, use https", ""],
  [ofFetch("received corrupt message of type InvalidContentType"), UNREACHABLE, "plain HTTP, use http", ""],
  [ofSocket("ERR_SSL_WRONG_VERSION_NUMBER"), UNREACHABLE, "plain HTTP, use http", ""],
  [ofSocket("ECONNREFUSED"), UNREACHABLE, "cannot be reached", ""],
];

Deno.test("each failure of TLS has its code, its reason and its fix", async (t) => {
  for (const [error, code, reason, fix] of ROWS) {
    await t.step(`${error.cause instanceof Error ? error.cause.message : JSON.stringify(error)}`, () => {
      const described = unreachable(ORIGIN, "cannot be reached", error);
      assertEquals(described.code, code);
      assertStringIncludes(described.message, reason);
      assert(described.message.includes(ORIGIN));
      assertStringIncludes(described.fix ?? "", fix);
    });
  }
});

Deno.test("a failure of TLS is described when its causes are deep, and when they are a circle", () => {
  const deep = new Error("a", { cause: new Error("b", { cause: ofFetch("invalid peer certificate: UnknownIssuer") }) });
  assertEquals(unreachable(ORIGIN, "cannot be reached", deep).code, REFUSED);
  const circle = new Error("a");
  circle.cause = circle;
  assertEquals(unreachable(ORIGIN, "cannot be reached", circle).code, UNREACHABLE);
});
