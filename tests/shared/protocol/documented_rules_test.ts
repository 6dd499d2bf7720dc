/**
 * The schema that the API documents show of a member accepts what the service accepts and refuses what it refuses. A looser
 * one sends a client into refusals that it could not foresee.
 */
import { assertEquals } from "@std/assert";
import { Ajv2020 } from "ajv/dist/2020.js";
import type * as z from "zod";
import { RegisterBody } from "../../../shared/protocol/api/agents.ts";
import { AuditQuery } from "../../../shared/protocol/api/audit.ts";
import {
  AgentDid,
  AgentName,
  DisplayName,
  FrameworkAsSent,
  HumanDid,
  IsoTime,
  PageLimit,
  PublicKey,
  Ulid,
} from "../../../shared/protocol/api/fields.ts";
import { PeerListQuery } from "../../../shared/protocol/api/pairing.ts";
import { CreateServiceBody } from "../../../shared/protocol/api/services.ts";
import { schemaOf } from "../../../shared/openapi.ts";

const ULID = "01KHYQ5H00AAAAAAAAAAAAAAAA";
/** The longest authority, and one that is a character longer. */
const LONG = `${"a.".repeat(59)}a`, TOO_LONG = `${LONG}a`;
const KEY = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
const registration = (challengeSignature: string) => ({
  name: "a",
  publicKey: KEY,
  challengeId: ULID,
  challengeSignature,
});

const RULES: readonly [name: string, schema: z.ZodType, values: readonly unknown[]][] = [
  ["ULID", Ulid, [ULID, "8".padEnd(26, "0"), ULID.toLowerCase(), `${ULID}0`, ""]],
  [
    "agent DID",
    AgentDid,
    [
      ...["localhost", "127.0.0.1", "a.example", "x-1.example", "1a.b2", "a.0xz", LONG, TOO_LONG],
      ...["", "A.example", "-a.example", "a-.example", "a..b", "256.0.0.1", "1.2.3", "a.0x1", "a.12", "a:1", "a_b"],
    ].map((authority) => `did:svc:${authority}:agent:${ULID}`).concat(`did:svc:localhost:human:${ULID}`, "did:svc:x"),
  ],
  ["human DID", HumanDid, [
    ...["localhost", LONG, TOO_LONG].map((authority) => `did:svc:${authority}:human:${ULID}`),
    `did:svc:localhost:agent:${ULID}`,
    "",
  ]],
  ["agent name", AgentName, [
    ...["a", "A.b", "a-b_c.d", "0", "console", "com", "com10", "x".repeat(64)],
    ...["", ".a", "a.", "-a", "a..b", "con", "CON", "nul.txt", "Com1", "lpt9.x", "é", "a b", "x".repeat(65)],
  ]],
  ["display name", DisplayName, [
    "A",
    " A ",
    "é😀",
    "\u00a0x",
    "",
    " ",
    "\ufeff",
    "a\u0000",
    "\u0085",
    "\u202ea",
    "x".repeat(65),
  ]],
  ["framework", FrameworkAsSent, ["generic", " x", "\u202ea", "", "  ", "a\n", "x".repeat(33)]],
  ["public key", PublicKey, [KEY, `${KEY}=`, KEY.slice(1), `${KEY.slice(0, -1)}p`, ""]],
  ["time", IsoTime, ["2026-02-21T00:00:00Z", "2026-02-21T00:00:00.123+01:00", "1999-02-21T00:00:00Z", "now", ""]],
  ["page size", PageLimit, ["1", "9", "99", "100", "0", "101", "999", "01", "1.0", "", "x"]],
  ["peers of a page", PeerListQuery, ["1", "500", "501", "0"].map((limit) => ({ limit }))],
  [
    "audit filter",
    AuditQuery,
    ["agent.", "agent.deleted", "invite.", "agent", "", ".", "x."].map((event) => ({ event })),
  ],
  [
    "scopes",
    CreateServiceBody,
    [["crl.read"], ["crl.read", "crl.read"], [], ["x"]].map((scopes) => ({
      name: "service",
      scopes,
    })),
  ],
  ["signature", RegisterBody, ["A".repeat(86), "A".repeat(85), `${"A".repeat(85)}B`, ""].map(registration)],
];

for (const [name, schema, values] of RULES) {
  Deno.test(`the documents show exactly which ${name} the service accepts`, () => {
    const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(schemaOf(schema, "input"));
    const shown = values.map((value) => [value, validate(value)]);
    const wanted = values.map((value) => [value, schema.safeParse(value).success]);
    assertEquals(shown, wanted);
  });
}
