/**
 * Shows how lists are paged: each record once, a bound on every page, and the number of records that a filtered page
 * reads.
 */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../registry/schema/kv_keys.ts";
import type { AgentRecord } from "../../registry/schema/records.ts";
import type { AgentList } from "../../shared/protocol/api/agents.ts";
import { answered, openRegistry, pagesOf, refused, tally, writeRecords } from "../support/registry_world.ts";
import { AMPLE_QUOTAS, type World } from "../support/world.ts";

const DAY_MS = 86_400_000;
const PAGE = 25;

const LISTS: [path: string, list: string, create: (w: World, apiKey: string, i: number) => Promise<Response>][] = [
  ["/v1/me/api-keys", "apiKeys", (w, apiKey) => w.ask("POST", "/v1/me/api-keys", { apiKey })],
  ["/v1/invites", "invites", (w, apiKey) => w.ask("POST", "/v1/invites", { apiKey })],
  [
    "/v1/admin/internal-services",
    "internalServices",
    (w, apiKey, i) =>
      w.ask("POST", "/v1/admin/internal-services", { apiKey, body: { name: `relay-${i}`, scopes: ["crl.read"] } }),
  ],
  ["/v1/admin/audit", "events", (w, apiKey) => w.ask("POST", "/v1/invites", { apiKey })],
];

for (const [path, list, create] of LISTS) {
  Deno.test(`${path} returns each record once, newest first, in pages of at most ${PAGE}`, async () => {
    await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
    const { apiKey } = await w.admin();
    for (let i = 0; i < PAGE + 5; i++) {
      await (await create(w, apiKey, i)).body?.cancel();
      await w.clock.advance(1);
    }
    const pages = await pagesOf(w, path, list, { limit: String(PAGE) });
    assertEquals(pages.map((page) => page.length), [PAGE, pages.flat().length - PAGE]);
    assert(pages.flat().length >= PAGE + 5);
    assertEquals(pages.flat(), [...new Set(pages.flat())].sort().reverse());
    // Without a limit a page holds up to 100.
    assertEquals(await pagesOf(w, path, list), [pages.flat()]);
    for (const query of ["limit=0", "limit=101", "limit=x", "cursor=x", "limit=1&limit=2"]) {
      const code = path === "/v1/admin/audit" ? "AUDIT_INVALID_QUERY" : "LIST_INVALID_QUERY";
      await refused(await w.ask("GET", `${path}?${query}`, { apiKey }), code);
    }
  });
}

Deno.test("the client reads all pages of API keys and internal services", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const { apiKey } = await w.admin();
  for (let i = 0; i < 101; i++) {
    if (i === 60) await w.clock.advance(DAY_MS);
    await w.client.createApiKey(apiKey);
  }
  assertEquals((await w.client.apiKeys(apiKey)).length, 102);
  // Copies of one record, because the creation of a hundred services shows nothing more.
  const { internalService } = await w.client.createService(apiKey, "relay", ["crl.read"]);
  const { value } = await w.kv.get<object>(KEYS.service(internalService.id));
  for (let i = 0; i < 100; i++) {
    const id = w.newId();
    await w.kv.set(KEYS.service(id), { ...value, id });
  }
  assertEquals((await w.client.services(apiKey)).length, 102);
});

Deno.test("a filtered page of an owner's agents reads at most 200 of them and returns a cursor to go on", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const a = await w.agent();
  const { value: record } = await w.kv.get<AgentRecord>(KEYS.agent(a.agent.id));
  assert(record);
  await writeRecords(w, 300, (operation) => {
    const id = w.newId();
    operation.set(KEYS.agent(id), { ...record, id, status: "revoked" }).set(KEYS.agentOf(a.owner.id, id), true);
  });
  const { getMany } = w.kv;
  let reads = 0;
  w.kv.getMany =
    ((...args: Parameters<typeof getMany>) => (reads += args[0].length, getMany.apply(w.kv, args))) as typeof getMany;
  const page = async (query: string) => {
    reads = 0;
    return await answered<AgentList>(await w.ask("GET", `/v1/agents?${query}`, a.owner));
  };
  const first = await page("status=active");
  assertEquals([first.agents.length, first.pagination.limit], [0, 20]);
  assert(reads >= 200 && reads < 220, String(reads));
  const second = await page(`status=active&cursor=${first.pagination.nextCursor}`);
  assertEquals([second.agents.map(({ id }) => id), second.pagination.nextCursor], [[a.agent.id], null]);
  // Without a filter a page reads the records that it returns, and one more.
  const plain = await page("limit=100");
  assertEquals([plain.agents.length, plain.pagination.nextCursor], [100, plain.agents.at(-1)?.id]);
  assert(reads < 120, String(reads));
});

Deno.test("30 large pages of one person at once are answered, and so are the requests of others", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const a = await w.agent();
  const { value: record } = await w.kv.get<AgentRecord>(KEYS.agent(a.agent.id));
  await writeRecords(w, 100, (operation) => {
    const id = w.newId();
    operation.set(KEYS.agent(id), { ...record, id }).set(KEYS.agentOf(a.owner.id, id), true);
  });
  const pages = Array.from({ length: 30 }, () => w.ask("GET", "/v1/agents?limit=100", a.owner));
  const others = Array.from({ length: 5 }, () => w.person());
  const [counts] = await Promise.all([tally(pages), ...others]);
  assertEquals(counts, { "200": 30 });
});
