/** Shows that the headers of a signed request are read as `Headers.get` reads them: absent, empty, or repeated. */
import { assertEquals } from "@std/assert";
import { HEADERS } from "../../../../shared/protocol/proof.ts";
import type { RequestContext, SignedHeaders } from "../../../../shared/server/http/route.ts";
import { authorizationToken, signedHeaders } from "../../../../shared/server/http/signed_request.ts";

const TEXTS = {
  access: HEADERS.access,
  recipient: HEADERS.recipient,
  timestamp: HEADERS.timestamp,
  nonce: HEADERS.nonce,
  bodySha256: HEADERS.bodySha256,
  proof: HEADERS.proof,
  contentType: "Content-Type",
} as const;
const OR_NULL = {
  conversationId: HEADERS.conversationId,
  inReplyTo: HEADERS.inReplyTo,
  auto: HEADERS.auto,
  prefer: "Prefer",
} as const;

function read(sent: [name: string, value: string][]): { headers: Headers; found: SignedHeaders } {
  const headers = new Headers(sent);
  const request = { headers } as Request;
  return { headers, found: signedHeaders({ request } as RequestContext) };
}

Deno.test("an absent header is an empty text or null, and no other header is taken for one", () => {
  const { found } = read([["__proto__", "1"], ["constructor", "2"], ["bound", "3"], ["Set-Cookie", "4"]]);
  assertEquals(found, {
    token: null,
    ...{ access: "", recipient: "", timestamp: "", nonce: "", bodySha256: "", proof: "", contentType: "" },
    ...{ conversationId: null, inReplyTo: null, auto: null, prefer: null },
    bound: [],
  });
});

Deno.test("a repeated header never counts as one that was sent once, also when one of its values is empty", () => {
  for (const values of [["v"], [""], ["v", "w"], ["v", ""], ["", "v"], ["", ""], ["", "", "v"]]) {
    for (const [member, name] of Object.entries({ ...TEXTS, ...OR_NULL })) {
      const { found } = read(values.map((value, i) => [i % 2 ? name.toLowerCase() : name, value]));
      assertEquals(found[member as keyof SignedHeaders], values.join(", "), `${name}: ${values}`);
    }
    const { found } = read(values.map((value) => ["X-Svc-Other", value]));
    assertEquals(found.bound, [["x-svc-other", values.join(", ")]]);
  }
  for (const values of [["Svc t"], ["", "Svc t"], ["Svc t", ""], ["Svc t", "Svc t"], [""], ["Bearer t"]]) {
    const { headers, found } = read(values.map((value) => [HEADERS.authorization, value]));
    assertEquals(found.token, values.length === 1 && values[0] === "Svc t" ? "t" : "");
    assertEquals(found.token, authorizationToken(headers, "Svc"));
  }
});
