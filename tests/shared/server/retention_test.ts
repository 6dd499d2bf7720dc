/**
 * Shows that every key family states how it ends, that the statement agrees with an export, and that each family with
 * an expiry is written with one.
 */
import { assert, assertEquals } from "@std/assert";
import { KEYS as PROXY_KEYS } from "../../../proxy/schema/kv_keys.ts";
import { STORED as PROXY_STORED } from "../../../proxy/schema/retention.ts";
import { KEYS as REGISTRY_KEYS } from "../../../registry/schema/kv_keys.ts";
import { STORED as REGISTRY_STORED } from "../../../registry/schema/retention.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { exportLines, importLines, type StoredKinds } from "../../../shared/server/store/transfer.ts";
import { answered, openRegistry, refreshed } from "../../support/registry_world.ts";
import { look, visit } from "../../registry/console/visits.ts";
import { overlaid } from "../../support/faulty_kv.ts";
import { World } from "../../support/world.ts";
import { openTestKv } from "../../support/test_store.ts";

const DAY_MS = 86_400_000;

/** By an expiry, by a rule, or bounded by a quota. */
type FamilyEnd = { expiry: string } | { rule: string } | { quota: string };

const ONE_RECORD = { rule: "one record" };

/** How the records of each key family end, because records without an end fill the store. */
const REGISTRY_ENDS: Readonly<Record<string, FamilyEnd>> = {
  issuer: ONE_RECORD,
  signing_keys: { rule: "one record of at most 64 keys; a retired key leaves it after 90 days" },
  bootstrap: ONE_RECORD,
  human: { rule: "one for each redeemed invite; an admin decides how many there are" },
  suspension: { rule: "one for each human; deleted when its sessions are changed" },
  quota: { rule: "one for each human" },
  api_key: { quota: "QUOTA_API_KEYS active ones of a human; an expiry of 90 days from the revocation" },
  api_key_of: { rule: "ends with its API key, by the same expiry" },
  invite: { quota: "1,000 open ones of an admin; an expiry of 90 days from its end" },
  invite_code: { rule: "ends with its invite, by the same expiry" },
  challenge: { expiry: "24 h after its end" },
  agent: { quota: "QUOTA_AGENTS active ones of a human; an expiry of 90 days from the deletion" },
  agent_of: { rule: "ends with its agent, by the same expiry" },
  session: { expiry: "90 days after its revocation, or after the expiry of its refresh token" },
  spent_refresh: { expiry: "the expiry of the refresh token" },
  revocation: { expiry: "1 h after the expiry of the AIT" },
  crl_head: ONE_RECORD,
  service: { rule: "lives until an admin deletes it; then an expiry of 90 days" },
  service_name: { rule: "deleted with its service" },
  audit: { expiry: "400 days; of session.refreshed and session.recovered 7 days" },
  nonce: { expiry: "when no valid request can use it again" },
  window: { expiry: "two windows" },
  commit_mark: { expiry: "an hour after the last commit of its instance" },
  console: { expiry: "one minute for a code, 8 h for a session" },
  probe: { expiry: "an hour; one record" },
};

const PROXY_ENDS: Readonly<Record<string, FamilyEnd>> = {
  sender: { expiry: "901 s, or two windows, or 8 days with a begun delivery, after the last request" },
  sender_part: {
    expiry: `the timestamp of each nonce + ${LIMITS.nonceGraceSeconds} s and at least ${LIMITS.nonceKeptSeconds} s, ` +
      `kept ${LIMITS.nonceKeptSeconds} s longer`,
  },
  window: { expiry: "two windows after the last request" },
  delivery: {
    expiry: "24 h after its receipt; without one 8 days after its answer, or after its mailbox lifetime",
  },
  receipt: { expiry: "RECEIPT_RETENTION_SECONDS after it was recorded" },
  ticket: { expiry: "24 h after the ticket's expiry" },
  open_tickets: { expiry: "the longest lifetime of a ticket" },
  pair: { quota: "10,000 pairs per agent; removed when either agent is deleted" },
  pair_count: { rule: "removed with the last pair of its agent" },
  pairs_ended: ONE_RECORD,
  mailbox: { quota: "500 messages per recipient; deleted at the end of the mailbox lifetime" },
  mailbox_part: { rule: "deleted with its message" },
  mailbox_state: { expiry: "a mailbox lifetime and 8 days after its last change" },
  mailbox_bytes: { expiry: "a mailbox lifetime and 8 days after its last change" },
  mailbox_expiry: { rule: "deleted with its message" },
  presence: { expiry: "24 h after the lease of its instance ended" },
  seen: { expiry: "90 days after the agent last connected or disconnected; removed with the agent" },
  instance: { expiry: "24 h after the lease ended" },
  inbox: { expiry: "60 s; deleted when it is read" },
  inbox_part: { expiry: "60 s; deleted when it is read" },
  bell: { expiry: "60 s" },
  crl_seen: ONE_RECORD,
  issuer: { expiry: "7 days after the newest list of the registry was installed" },
  commit_mark: { expiry: "an hour after the last commit of its instance" },
  probe: { expiry: "an hour; one record" },
};

/** Checks the three tables of one service against each other. */
function checkTables(
  keys: Record<string, unknown>,
  stored: StoredKinds,
  ends: Readonly<Record<string, FamilyEnd>>,
): void {
  const families = Object.values(keys).map((make) => {
    const made = (make as (...args: unknown[]) => Deno.KvKey | { start: Deno.KvKey })(..."abcd");
    return String(("start" in made ? made.start : made)[1]);
  });
  assertEquals(Object.keys(ends).sort(), [...new Set(families)].sort());
  assertEquals(Object.keys(stored).sort(), Object.keys(ends).sort());
  for (const [family, end] of Object.entries(ends)) {
    assertEquals(Object.keys(end).length, 1, family);
    if (stored[family] === "forever") assert(!("expiry" in end), `${family} has an expiry and is stored forever`);
  }
}

Deno.test("every key family of the registry has one stated end, which agrees with an export", () => {
  checkTables(REGISTRY_KEYS, REGISTRY_STORED, REGISTRY_ENDS);
});

Deno.test("every key family of the proxy has one stated end, which agrees with an export", () => {
  checkTables(PROXY_KEYS, PROXY_STORED, PROXY_ENDS);
});

/** A write: family, `expireIn` or `null`, and the value. */
interface Written {
  family: string;
  expireIn: number | null;
  value: unknown;
}

/** A store that records every write. */
function recording(real: Deno.Kv, written: Written[]): Deno.Kv {
  const note = (key: Deno.KvKey, value: unknown, options?: { expireIn?: number }) =>
    written.push({ family: key.slice(0, 2).join("."), expireIn: options?.expireIn ?? null, value });
  return overlaid(real, {
    set: (key, value, options) => {
      note(key, value, options);
      return real.set(key, value, options);
    },
    atomic: () => {
      const operation = real.atomic();
      const own: Deno.AtomicOperation = overlaid(operation, {
        check: (...checks) => (operation.check(...checks), own),
        delete: (key) => (operation.delete(key), own),
        set: (key, value, options) => {
          note(key, value, options);
          operation.set(key, value, options);
          return own;
        },
      });
      return own;
    },
  });
}

/** Writes a record of every family of the registry. */
async function story(w: World): Promise<void> {
  const { apiKey } = await w.admin();
  const a = await w.agent();
  const own = a.owner.apiKey;
  await refreshed(w, a, a.agentAuth.refreshToken);
  await w.clock.advance(1_000);
  const again = await refreshed(w, a, a.agentAuth.refreshToken, { recovery: true });
  await refreshed(w, a, again.refreshToken);
  await w.client.reissueAgent(own, a.agent.id);
  await w.client.revokeAgentAuth(own, a.agent.id);
  await w.client.reissueAgent(own, a.agent.id);
  await w.client.deleteAgent(own, a.agent.id);
  await w.agent(a.owner);
  await answered(await w.ask("POST", `/v1/admin/people/${a.owner.id}/suspend`, { apiKey }));
  await answered(await w.ask("POST", `/v1/admin/people/${a.owner.id}/restore`, { apiKey }));
  const key = await w.client.createApiKey(own);
  await w.client.revokeApiKey(own, key.apiKey.id);
  const expiresAt = new Date(w.clock.now() + DAY_MS).toISOString();
  await w.client.createInvite(apiKey, expiresAt);
  const { internalService } = await w.client.createService(apiKey, "relay", ["crl.read"]);
  await w.client.revokeService(apiKey, internalService.id);
  const console = await visit(w);
  await w.clock.advance(61_000);
  assertEquals((await look(w, console, "overview")).status, 200);
  await answered(await w.ask("GET", "/v1/crl"));
  await answered(await w.ask("GET", "/health"));
}

Deno.test("each family of the registry with an expiry is written with one, also ended records", async () => {
  const written: Written[] = [];
  using real = await openTestKv();
  await using w = await World.open({ kv: recording(real, written), registry: { console: true } });
  await story(w);
  const exported = await Array.fromAsync(exportLines(real, { registry: REGISTRY_STORED }, w.clock.now()));
  const of = (family: string) => written.filter((write) => write.family === `registry.${family}`);
  for (const [family, end] of Object.entries(REGISTRY_ENDS)) {
    assert(of(family).length > 0, `${family} was not written`);
    if (!("expiry" in end)) continue;
    for (const { expireIn } of of(family)) assert(expireIn !== null && expireIn > 0, `${family} without an expiry`);
  }
  const days = (family: string, fits: (value: Record<string, unknown>) => boolean) =>
    of(family).filter(({ value }) => fits(value as Record<string, unknown>))
      .map(({ expireIn }) => expireIn === null ? null : expireIn / DAY_MS);
  const hasStatus = (status: string) => (value: Record<string, unknown>) => value.status === status;
  assertEquals(days("agent", hasStatus("revoked")), [90]);
  assertEquals(days("session", hasStatus("revoked")), [90, 90, 120]);
  assertEquals(days("session", hasStatus("active")), [120, 120, 120, 120, 120, 120, 120]);
  assertEquals(days("api_key", hasStatus("revoked")), [90]);
  assertEquals(days("service", hasStatus("revoked")), [90]);
  assertEquals(days("invite", (value) => value.redeemedAt !== null), [90]);
  assertEquals(days("invite", (value) => value.expiresAt !== null), [91]);
  const isRefresh = ({ event }: Record<string, unknown>) =>
    event === "session.refreshed" || event === "session.recovered";
  assertEquals(days("audit", isRefresh), [7, 7, 7]);
  assertEquals(new Set(days("audit", (value) => !isRefresh(value))), new Set([400]));
  // The index records of ended records end with them, also after an import: an agent, an API key, two invites.
  for (const [family, wanted] of [["agent_of", [90]], ["api_key_of", [90]], ["invite_code", [90, 91]]] as const) {
    assertEquals(days(family, () => true).filter((count) => count !== null), [...wanted], family);
  }
  const imported: Written[] = [];
  using target = await openTestKv();
  await importLines(
    recording(target, imported),
    { registry: REGISTRY_STORED },
    ReadableStream.from(exported),
    w.clock.now(),
  );
  for (const [family, main] of [["agent_of", "agent"], ["api_key_of", "api_key"], ["invite_code", "invite"]]) {
    const ends = (name?: string) =>
      imported.filter((write) => write.family === `registry.${name}`).map(({ expireIn }) => expireIn).sort();
    assertEquals(ends(family), ends(main), family);
  }
});

Deno.test("a challenge is kept for a day after its end, also a used one, and one that is open for longer than a day", async () => {
  const written: Written[] = [];
  using real = await openTestKv();
  await using w = await openRegistry({ kv: recording(real, written), registry: { challengeTtlSeconds: 2 * 86_400 } });
  await w.agent();
  assertEquals(
    written.filter(({ family }) => family === "registry.challenge").map(({ expireIn }) => (expireIn ?? 0) / DAY_MS),
    [3, 3],
  );
});

Deno.test("an export keeps active records of the registry without an end and ended ones with one", async () => {
  await using w = await openRegistry();
  const [a, b] = [await w.agent(), await w.agent()];
  await w.client.deleteAgent(b.owner.apiKey, b.agent.id);
  const end = async (...key: string[]) => {
    const keep = REGISTRY_STORED[key[0] ?? ""];
    assert(typeof keep === "function");
    return keep((await w.kv.get(["registry", ...key])).value as never, w.clock.now());
  };
  const until = w.clock.now() + 90 * DAY_MS;
  assertEquals([await end("agent", a.agent.id), await end("agent", b.agent.id)], [null, until]);
  assertEquals([
    await end("agent_of", a.owner.id, a.agent.id),
    await end("agent_of", b.owner.id, b.agent.id),
  ], [null, until]);
  assertEquals([
    await end("session", a.agent.id),
    await end("session", b.agent.id),
  ], [until + 30 * DAY_MS, until]);
  // The owner of each agent has redeemed an invite that never expires, and answered a challenge of five minutes.
  const ids = async (family: string) =>
    (await Array.fromAsync(w.kv.list({ prefix: ["registry", family] }))).map(({ key }) => String(key.at(-1)));
  for (const id of await ids("invite")) assertEquals(await end("invite", id), until);
  for (const id of await ids("challenge")) {
    assertEquals(await end("challenge", id), w.clock.now() + LIMITS.challengeTtlSeconds * 1000 + DAY_MS);
  }
  const { apiKey: key } = await w.client.createApiKey(a.owner.apiKey);
  await w.client.revokeApiKey(a.owner.apiKey, key.id);
  const digests = w.kv.list<string>({ prefix: ["registry", "api_key_of", a.owner.id] });
  const ends = await Array.fromAsync(digests, async ({ value }) => await end("api_key", value));
  assertEquals(ends, [null, until]);
});
