/** The end of a console's session in the store: after eight hours in any case, and permanently. */
import { assert, assertEquals } from "@std/assert";
import type { ApiKeyCaller } from "../../../registry/callers.ts";
import {
  createConsoleCode,
  endConsoleSession,
  findConsoleSession,
  takeConsoleCode,
} from "../../../registry/console/sessions.ts";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import type { ApiKeyRecord, HumanRecord } from "../../../registry/schema/records.ts";
import type { InviteList } from "../../../shared/protocol/api/invites.ts";
import type { Environment } from "../../../shared/protocol/api/meta.ts";
import { sha256 } from "../../../shared/protocol/base64url.ts";
import { BatchedReads } from "../../../shared/server/store/batched_reads.ts";
import { CallGate, countingKv, noCounts } from "../../support/counting_kv.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { answered, openRegistry, outcome } from "../../support/registry_world.ts";
import { openTestKv } from "../../support/test_store.ts";
import { PROXY_URL, World } from "../../support/world.ts";
import { look, open, send, visit } from "./visits.ts";

const MINUTE_MS = 60_000, SESSION_MS = 8 * 60 * MINUTE_MS;
const ASKED = { requestId: "r", ip: "192.0.2.1", isUse: true };

/** What reads codes and sessions, without the queue of the registry. */
const reading = (w: World) => Object.assign(w, { keyReads: new BatchedReads(w.kv) });

/** Opens a session of the first admin with this digest. */
async function opened(w: World, digest: string): Promise<void> {
  const { id } = await w.admin();
  const { value: human } = await w.kv.get<HumanRecord>(KEYS.human(id));
  const [key] = await Array.fromAsync(w.kv.list<ApiKeyRecord>({ prefix: KEYS.apiKey("x").slice(0, 2) }));
  assert(human && key);
  const caller = { human, key: key.value, requestId: "r" } satisfies ApiKeyCaller & { requestId: string };
  const { code } = await createConsoleCode(w, caller);
  assert(await takeConsoleCode(reading(w), await sha256(code), digest, ASKED));
}

Deno.test("a session that is used all the time ends after eight hours", async () => {
  await using w = await openRegistry();
  await opened(w, "session");
  for (let passed = 0; passed < SESSION_MS - 20 * MINUTE_MS; passed += 20 * MINUTE_MS) {
    w.clock.step(20 * MINUTE_MS);
    assert(await findConsoleSession(reading(w), "session", ASKED), `after ${passed / MINUTE_MS} min`);
  }
  w.clock.step(20 * MINUTE_MS - 1);
  assert(await findConsoleSession(reading(w), "session", ASKED));
  w.clock.step(1);
  assertEquals(await findConsoleSession(reading(w), "session", ASKED), null);
});

Deno.test("a session that is closed while it is used does not come back", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ kv: faulty.kv });
  await opened(w, "session");
  w.clock.step(2 * MINUTE_MS);
  faulty.faults.before = async ({ method }) => {
    if (method !== "commit") return;
    faulty.faults = {};
    await endConsoleSession(w, "session");
  };
  await findConsoleSession(reading(w), "session", ASKED);
  assertEquals((await w.kv.get(KEYS.console("session"))).value, null);
  assertEquals(await findConsoleSession(reading(w), "session", ASKED), null);
});

Deno.test("of a thousand invented cookies at once only 100 of one address are looked up", async () => {
  const gate = new CallGate(), kv = countingKv(await openTestKv(), gate, noCounts());
  await using w = await World.open({ kv, registry: { console: true } });
  gate.hold();
  const visits = Array.from({ length: 1_000 }, (_, i) => {
    const url = `${w.registryUrl}/console/invented-${i}/overview`;
    return w.fetch(url, { headers: { Cookie: "svc_page=invented" } });
  });
  await flushTasks();
  assert(gate.waiting > 0 && gate.waiting <= 100, `${gate.waiting} calls of the store wait`);
  gate.letThrough();
  await gate.release();
  const statuses = new Set((await Promise.all(visits)).map(({ status }) => status));
  assertEquals(statuses, new Set([403, 503]));
});

Deno.test("on plain http the console is for the machine of the server only, and only where it runs for one person", async () => {
  const own = "127.0.0.1", foreign = "192.0.2.1", text = "others can read the session";
  const rows: [registryUrl: string, environment: Environment, from: string, code: number, page: string | null][] = [
    ["http://127.0.0.1:8080", "local", own, 201, null],
    ["http://127.0.0.1:8080", "local", foreign, 201, "Only its own machine may use it."],
    ["http://127.0.0.1:8080", "production", own, 404, text],
    ["http://registry.example.test", "local", own, 404, text],
    ["https://registry.example.test", "production", foreign, 201, null],
  ];
  for (const [registryUrl, environment, address, status, refusal] of rows) {
    const at = { registryUrl, proxyUrl: PROXY_URL };
    await using w = await World.open({ at, registry: { console: true, environment } });
    const what = `${registryUrl} in ${environment} from ${address}`;
    const code = await w.ask("POST", "/v1/admin/console-codes", await w.admin());
    assertEquals(await outcome(code), status === 201 ? "201" : `${status} CONSOLE_OFF`, what);
    w.peer = { from: "socket", address };
    const answer = await w.fetch(`${registryUrl}/console/open/a-code`);
    const page = await answer.text();
    if (refusal === null) assert(answer.status !== 403, what);
    else assert(answer.status === 403 && page.includes(refusal), what);
  }
});

Deno.test("an invite for a number of days that no form offers works for a week, and an admin cannot be suspended", async () => {
  await using w = await open();
  const own = await visit(w), admin = await w.admin();
  assertEquals((await send(w, own, "invites", { days: "365" })).status, 200);
  const { invites: [invite] } = await answered<InviteList>(await w.ask("GET", "/v1/invites", admin));
  assertEquals(invite?.expiresAt, new Date(w.clock.now() + 7 * 86_400_000).toISOString());
  const person = await w.person();
  const offers = async ({ id }: { id: string }) => (await look(w, own, `people/${id}`)).text.includes("/suspend");
  assertEquals([await offers(admin), await offers(person)], [false, true]);
});
