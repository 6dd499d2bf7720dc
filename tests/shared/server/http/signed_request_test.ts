/** Shows that the headers of a signed request are read as `Headers.get` reads them: absent, empty, or repeated. */
import { assertEquals } from "@std/assert";
import { HEADERS } from "../../../../shared/protocol/proof.ts";
import type { RequestContext, SignedHeaders } from "../../../../shared/server/http/route.ts";
import { signedHeaders } from "../../../../shared/server/http/signed_request.ts";

const TEXTS = {
  access: HEADERS.access,
  recipient: HEADERS.recipient,
  timestamp: HEADERS.timestamp,
  nonce: HEADERS.nonce,
  bodySha256: HEADERS.bodySha256,
  proof: HEADERS.proof,
} as const;

function read(sent: [name: string, value: string][]): SignedHeaders {
  return signedHeaders({ request: { headers: new Headers(sent) } as Request } as RequestContext);
}

Deno.test("an absent header is an empty text or null, and no other header is taken for one", () => {
  const found = read([["__proto__", "1"], ["constructor", "2"], ["Set-Cookie", "3"]]);
  const texts = { access: "", recipient: "", timestamp: "", nonce: "", bodySha256: "", proof: "" };
  assertEquals(found, { token: null, ...texts });
});

Deno.test("a repeated header never counts as one that was sent once, also when one of its values is empty", () => {
  for (const values of [["v"], [""], ["v", "w"], ["v", ""], ["", "v"], ["", ""], ["", "", "v"]]) {
    for (const [member, name] of Object.entries(TEXTS)) {
      const found = read(values.map((value, i) => [i % 2 ? name.toLowerCase() : name, value]));
      assertEquals(found[member as keyof SignedHeaders], values.join(", "), `${name}: ${values}`);
    }
  }
  for (const values of [["Svc t"], ["", "Svc t"], ["Svc t", ""], ["Svc t", "Svc t"], [""], ["Bearer t"]]) {
    const found = read(values.map((value) => [HEADERS.authorization, value]));
    assertEquals(found.token, values.length === 1 && values[0] === "Svc t" ? "t" : "");
  }
});
