/**
 * Shows which request bodies are valid (D-42 to D-44, D-72). Each schema accepts its valid bodies, fills in the
 * defaults, ignores unknown members and refuses each invalid body.
 */
import { assertEquals } from "@std/assert";
import type * as z from "zod";
import { BootstrapBody } from "../../../shared/protocol/api/accounts.ts";
import { AdminAgentQuery, PeopleQuery, SuspensionBody } from "../../../shared/protocol/api/admin.ts";
import { AuditQuery } from "../../../shared/protocol/api/audit.ts";
import { ChallengeBody, RegisterBody } from "../../../shared/protocol/api/agents.ts";
import { IdPath } from "../../../shared/protocol/api/fields.ts";
import { CreateInviteBody, RedeemInviteBody } from "../../../shared/protocol/api/invites.ts";
import { PairConfirmBody, PairStartBody, PairStatusBody } from "../../../shared/protocol/api/pairing.ts";
import { ReceiptBody, ReceiptQuery } from "../../../shared/protocol/api/receipts.ts";
import { OwnershipBody } from "../../../shared/protocol/api/services.ts";
import { RefreshBody, ValidateBody } from "../../../shared/protocol/api/sessions.ts";
import { vectors } from "../../support/vectors.ts";

const { agentKey } = vectors("registration");
const ID = "01KHYQ5H00AAAAAAAAAAAAAAAA";
const AGENT = `did:svc:registry.example.test:agent:${ID}`;
const HUMAN = `did:svc:registry.example.test:human:${ID}`;
const SIGNATURE = "A".repeat(86);

const REGISTER = { name: "alpha", publicKey: agentKey.x, challengeId: ID, challengeSignature: SIGNATURE };
const PROFILE = { agentName: "alpha", humanName: "Ada" };
const START = { initiatorProfile: PROFILE };
const CONFIRM = { ticket: "svcpair1_x", responderProfile: PROFILE };
const RECEIPT = {
  requestId: "req:0001",
  recipientAgentDid: AGENT,
  status: "processed_by_svc",
  timestamp: "2026-02-21T00:00:00Z",
};
const BAD_NAMES = [null, "", "   ", 1, "a".repeat(65), "a\nb", "a\u202eb", "a\u0000b", ["a"]];
const NO_BODIES = [null, [], "x", 1, true, undefined];

type Good = [body: unknown, read: unknown];
const ROWS: [name: string, schema: z.ZodType, good: Good[], bad: unknown[]][] = [
  ["BootstrapBody", BootstrapBody, [
    [{}, { displayName: "Admin", apiKeyName: "bootstrap-admin" }],
    [{ displayName: " Ada ", apiKeyName: "k", role: "x" }, { displayName: "Ada", apiKeyName: "k" }],
    [{ displayName: "👋".repeat(64) }, { displayName: "👋".repeat(64), apiKeyName: "bootstrap-admin" }],
  ], BAD_NAMES.flatMap((name) => [{ displayName: name }, { apiKeyName: name }])],
  [
    "CreateInviteBody",
    CreateInviteBody,
    [
      [{}, { expiresAt: null }],
      [{ expiresAt: null }, { expiresAt: null }],
      [{ expiresAt: "2030-01-01T00:00:00Z" }, { expiresAt: "2030-01-01T00:00:00Z" }],
    ],
    ["tomorrow", "2030-02-31T00:00:00Z", "2030", "1", "tomorrow 5", "", 1, {}, []].map((expiresAt) => ({ expiresAt })),
  ],
  ["RedeemInviteBody", RedeemInviteBody, [
    [{ code: "x" }, { code: "x", displayName: "User", apiKeyName: "invite" }],
    [{ code: "a".repeat(128), role: "admin", displayName: "Ada" }, {
      code: "a".repeat(128),
      displayName: "Ada",
      apiKeyName: "invite",
    }],
  ], [
    {},
    ...["", "a".repeat(129), 1, null, ["x"]].map((code) => ({ code })),
    ...["", "A".repeat(42), `${"A".repeat(42)}=`, null].map((retrySecret) => ({ code: "x", retrySecret })),
    ...BAD_NAMES.flatMap((name) => [{ code: "x", displayName: name }, { code: "x", apiKeyName: name }]),
  ]],
  ["IdPath", IdPath, [[{ id: ID }, { id: ID }]], [{ id: ID.toLowerCase() }, { id: "abc" }, { id: `${ID}A` }, {}]],
  ["ChallengeBody", ChallengeBody, [[{ publicKey: agentKey.x }, { publicKey: agentKey.x }]], [
    {},
    ...["", "AAAA", `${agentKey.x}=`, "A".repeat(43), `Ag${"A".repeat(41)}`, 1, null].map((publicKey) => ({
      publicKey,
    })),
  ]],
  ["RegisterBody", RegisterBody, [
    [REGISTER, REGISTER],
    [{ ...REGISTER, ttlDays: 1, framework: "x" }, { ...REGISTER, ttlDays: 1, framework: "x" }],
    [{ ...REGISTER, ttlDays: 90, framework: "a".repeat(32) }, { ...REGISTER, ttlDays: 90, framework: "a".repeat(32) }],
    [{ ...REGISTER, framework: " x " }, { ...REGISTER, framework: " x " }],
    [{ ...REGISTER, ownerDid: HUMAN }, REGISTER],
  ], [
    ...[0, 91, 1.5, -1, "30", null, 1e9].map((ttlDays) => ({ ...REGISTER, ttlDays })),
    ...["", " ", "a".repeat(33), "a\u0007", null, 1].map((framework) => ({ ...REGISTER, framework })),
    ...["", "..", "a/b", "CON", null].map((name) => ({ ...REGISTER, name })),
    ...["", "A".repeat(84), "A".repeat(87), `${SIGNATURE}==`, `${SIGNATURE.slice(1)}B`, 1].map((
      challengeSignature,
    ) => ({
      ...REGISTER,
      challengeSignature,
    })),
    ...["abc", ID.toLowerCase(), null].map((challengeId) => ({ ...REGISTER, challengeId })),
    ...Object.keys(REGISTER).map((name) => ({ ...REGISTER, [name]: undefined })),
  ]],
  ["RefreshBody", RefreshBody, [
    [{ refreshToken: "x" }, { refreshToken: "x", recovery: false }],
    [{ refreshToken: "x", recovery: true }, { refreshToken: "x", recovery: true }],
  ], [
    {},
    ...["", 1, null, "x".repeat(10_240)].map((refreshToken) => ({ refreshToken })),
    ...["true", 1, null].map((recovery) => ({ refreshToken: "x", recovery })),
  ]],
  ["ValidateBody", ValidateBody, [[{ agentDid: AGENT, aitJti: ID }, { agentDid: AGENT, aitJti: ID }]], [
    { agentDid: AGENT },
    { aitJti: ID },
    { agentDid: HUMAN, aitJti: ID },
    { agentDid: AGENT, aitJti: "abc" },
    { agentDid: 1, aitJti: ID },
  ]],
  ["OwnershipBody", OwnershipBody, [[{ ownerDid: HUMAN, agentDid: AGENT }, { ownerDid: HUMAN, agentDid: AGENT }]], [
    { ownerDid: AGENT, agentDid: AGENT },
    { ownerDid: HUMAN, agentDid: HUMAN },
    { ownerDid: HUMAN },
    { agentDid: AGENT },
  ]],
  ["PairStartBody", PairStartBody, [
    [START, { ...START, ttlSeconds: 300 }],
    [{ ...START, ttlSeconds: 1 }, { ...START, ttlSeconds: 1 }],
    [{ ...START, ttlSeconds: 900, allowResponderAgentDid: AGENT, x: 1 }, {
      ...START,
      ttlSeconds: 900,
      allowResponderAgentDid: AGENT,
    }],
  ], [
    ...[901, 0, -1, 1.5, "300", null, 1e9].map((ttlSeconds) => ({ ...START, ttlSeconds })),
    ...BAD_NAMES.flatMap((name) => [
      { initiatorProfile: { ...PROFILE, agentName: name } },
      { initiatorProfile: { ...PROFILE, humanName: name } },
    ]),
    ...[undefined, null, {}, "x", [PROFILE], { agentName: "a" }].map((initiatorProfile) => ({ initiatorProfile })),
    { ...START, allowResponderAgentDid: HUMAN },
    { ...START, allowResponderAgentDid: null },
  ]],
  ["PairConfirmBody", PairConfirmBody, [
    [CONFIRM, CONFIRM],
    [{ ...CONFIRM, ticket: ` ${CONFIRM.ticket}\n` }, CONFIRM],
  ], [
    ...[undefined, "", "  ", 1, null, {}].map((ticket) => ({ ...CONFIRM, ticket })),
    { ticket: CONFIRM.ticket },
    ...BAD_NAMES.map((name) => ({ ...CONFIRM, responderProfile: { ...PROFILE, agentName: name } })),
  ]],
  ["SuspensionBody", SuspensionBody, [
    [{}, {}],
    [{ reason: " a test ", more: 1 }, { reason: "a test" }],
  ], [null, "", " ", 1, [], {}, "x".repeat(201), "a\nb", "a\u202eb"].map((reason) => ({ reason }))],
  ["PeopleQuery", PeopleQuery, [
    [{}, { limit: 20 }],
    [{ status: "suspended", role: "admin", limit: "100", cursor: ID }, {
      status: "suspended",
      role: "admin",
      limit: 100,
      cursor: ID,
    }],
  ], [
    ...["0", "101", "-1", "1e1", "", 5].map((limit) => ({ limit })),
    ...[{ status: "revoked" }, { role: "root" }, { cursor: "x" }, { status: ["active", "suspended"] }],
  ]],
  ["AdminAgentQuery", AdminAgentQuery, [
    [{}, { limit: 20 }],
    [{ status: "revoked", framework: "generic", ownerId: ID, limit: "1" }, {
      status: "revoked",
      framework: "generic",
      ownerId: ID,
      limit: 1,
    }],
  ], [{ status: "suspended" }, { framework: "" }, { framework: "x".repeat(33) }, { ownerId: HUMAN }]],
  ["AuditQuery", AuditQuery, [
    [{}, { limit: 100, order: "desc" }],
    [{ event: "agent.", actor: "store recover", order: "asc" }, {
      event: "agent.",
      actor: "store recover",
      order: "asc",
      limit: 100,
    }],
  ], [
    ...["", ".", "agent", "agent.x", "agent.deleted.", "x".repeat(10_000)].map((event) => ({ event })),
    ...[{ actor: "" }, { subject: "x".repeat(201) }, { since: "now" }, { until: 1 }, { order: "up" }],
  ]],
  ["PairStatusBody", PairStatusBody, [[{ ticket: "x" }, { ticket: "x" }]], [{}, { ticket: "" }, { ticket: 1 }]],
  ["ReceiptBody", ReceiptBody, [
    [RECEIPT, RECEIPT],
    [{ ...RECEIPT, status: "dead_lettered", senderAgentDid: AGENT, receivedAt: "x" }, {
      ...RECEIPT,
      status: "dead_lettered",
      senderAgentDid: AGENT,
    }],
  ], [
    ...Object.keys(RECEIPT).map((name) => ({ ...RECEIPT, [name]: undefined })),
    ...["processed", "", null, 1].map((status) => ({ ...RECEIPT, status })),
    ...["now", "2026-02-21", 1, null].map((timestamp) => ({ ...RECEIPT, timestamp })),
    { ...RECEIPT, requestId: "short" },
    { ...RECEIPT, recipientAgentDid: HUMAN },
    { ...RECEIPT, senderAgentDid: HUMAN },
    { ...RECEIPT, senderAgentDid: null },
  ]],
  ["ReceiptQuery", ReceiptQuery, [
    [{ requestId: "req:0001", recipientAgentDid: AGENT }, { requestId: "req:0001", recipientAgentDid: AGENT }],
  ], [
    { requestId: "req:0001" },
    { recipientAgentDid: AGENT },
    { requestId: "short", recipientAgentDid: AGENT },
    { requestId: "req:0001", recipientAgentDid: HUMAN },
    { requestId: ["req:0001", "req:0002"], recipientAgentDid: AGENT },
  ]],
];

for (const [name, schema, good, bad] of ROWS) {
  Deno.test(`${name} reads its good bodies`, async (t) => {
    for (const [body, read] of good) {
      await t.step(JSON.stringify(body).slice(0, 100), () => assertEquals(schema.parse(body), read));
    }
  });

  Deno.test(`${name} refuses each bad body`, () => {
    for (const body of [...bad, ...NO_BODIES]) {
      assertEquals(schema.safeParse(body).success, false, JSON.stringify(body));
    }
  });
}
