/**
 * Shows the form of every bearer secret (D-08), its stored digest, and the part that may be shown. The tests supply the
 * random bytes, so that each text is known in advance.
 */
import { assert, assertEquals, fail } from "@std/assert";
import fc from "fast-check";
import { fromBase64Url } from "../../../shared/protocol/base64url.ts";
import { isSecret, makeSecret, maskSecret, SECRET_KINDS, type SecretKind } from "../../../shared/protocol/secrets.ts";

const RUNS = { seed: 1, numRuns: 200 };
const FORMS: [kind: SecretKind, prefix: string, bytes: number][] = [
  ["pat", "svc_pat_", 32],
  ["access", "svc_agt_", 32],
  ["refresh", "svc_rft_", 32],
  ["service", "svc_srv_", 32],
  ["invite", "svc_inv_", 24],
];
const KINDS = FORMS.map(([kind]) => kind);
const kind = fc.constantFrom(...KINDS);
const entropy = fc.uint8Array({ minLength: 32, maxLength: 32 });

Deno.test("there are exactly five kinds of secret", () => {
  const rows = Object.entries(SECRET_KINDS).map(([name, { prefix, bytes }]) => `${name} ${prefix} ${bytes}`);
  assertEquals(rows.sort(), FORMS.map((row) => row.join(" ")).sort());
});

Deno.test("a new secret is its prefix and base64url of random bytes", () => {
  fc.assert(
    fc.property(kind, entropy, (of, bytes) => {
      const secret = makeSecret(of, (n) => bytes.slice(0, n));
      const [, prefix, length] = FORMS.find(([name]) => name === of) ?? fail();
      assert(secret.startsWith(prefix));
      assertEquals(fromBase64Url(secret.slice(prefix.length)), new Uint8Array(bytes.slice(0, length)));
    }),
    RUNS,
  );
});

Deno.test("the secret check accepts the secrets of each kind only", () => {
  fc.assert(
    fc.property(kind, kind, entropy, (made, asked, bytes) => {
      assertEquals(isSecret(asked, makeSecret(made, (n) => bytes.slice(0, n))), made === asked);
    }),
    RUNS,
  );
});

Deno.test("the secret check refuses each malformed secret", async (t) => {
  const body = "A".repeat(43);
  const rows: [name: string, text: string][] = [
    ["nothing", ""],
    ["the prefix alone", "svc_pat_"],
    ["a secret cut by one", `svc_pat_${body.slice(1)}`],
    ["a secret that is one longer", `svc_pat_${body}A`],
    ["another prefix", `svc_agt_${body}`],
    ["an upper-case prefix", `SVC_PAT_${body}`],
    ["a space in front", ` svc_pat_${body}`],
    ["a line feed at the end", `svc_pat_${body}\n`],
    ["a line feed as last character", `svc_pat_${body.slice(1)}\n`],
    ["the standard alphabet", `svc_pat_${body.slice(1)}+`],
    ["padding", `svc_pat_${body.slice(1)}=`],
    ["a letter beyond ASCII", `svc_pat_${body.slice(1)}é`],
    ["non-zero trailing bits", `svc_pat_${body.slice(1)}B`],
    ["10 KiB", `svc_pat_${"A".repeat(10_240)}`],
  ];
  for (const [name, text] of rows) await t.step(name, () => assertEquals(isSecret("pat", text), false));
});

Deno.test("secret masking shows at most the prefix and four characters", () => {
  fc.assert(
    fc.property(kind, entropy, (of, bytes) => {
      const secret = makeSecret(of, (n) => bytes.slice(0, n));
      assertEquals(maskSecret(secret), `${secret.slice(0, 12)}…`);
    }),
    RUNS,
  );
});

Deno.test("secret masking shows nothing of a text that is not a secret", () => {
  for (const text of ["", "hunter2", "Bearer svc_pat_AAAA", "svcpair1_AAAA", "svc_xyz_AAAAAAAA"]) {
    assertEquals(maskSecret(text), "…");
  }
});
