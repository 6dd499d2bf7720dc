/**
 * Shows the proxy on a faulty store (D-216): with any failing call, a change is applied completely or not at all;
 * conflicting commits are retried at most ten times; no commit holds more checks than the store allows. The registry's
 * part: `tests/registry/store_test.ts` and `faults_test.ts`.
 */
import { assert, assertEquals } from "@std/assert";
import type { UpgradeWebSocket } from "../../shared/server/http/open_sockets.ts";
import { PROXY_ROUTES } from "../../proxy/routes.ts";
import { failEach, GONE, TOO_LARGE } from "../support/each_fault.ts";
import { FaultyKv } from "../support/faulty_kv.ts";
import { outcome, refused, tally, withTime } from "../support/registry_world.ts";
import { seededRandom } from "../support/seeded_random.ts";
import { fraction } from "../../shared/random.ts";
import type { World } from "../support/world.ts";
import { look, tokenOf } from "./admin/admin_world.ts";
import { get, openProxy, post, PROFILE, receiptOf, ticketOf } from "./proxy_world.ts";

/** What admission always writes, with any result of the request. */
const ADMISSION = ["sender", "window"];

interface Step {
  /** Row of the route table. */
  route: string;
  name: string;
  wanted: string;
  /** Kind of record that it writes, in addition to those of admission. */
  record: string;
  beside?: readonly string[];
  prepare(w: World): Promise<() => Promise<Response>>;
}

/** A proxy with a revocation list; a missing list is covered by `crl_test.ts`. */
async function openReady(kv: Deno.Kv): Promise<World> {
  const w = await openProxy({ kv });
  await w.proxy.deps.crl.refresh();
  return w;
}

const STEPS: readonly Step[] = [{
  route: "POST /hooks/agent",
  name: "a message to a connected agent",
  wanted: "202",
  record: "delivery",
  // The attempt is stored before the frame is sent.
  beside: ["delivery"],
  async prepare(w) {
    const { a, b } = await w.pairedAgents();
    w.connect(b);
    await w.connected();
    return () => w.message(a, b);
  },
}, {
  route: "POST /hooks/agent",
  name: "a message that waits for its recipient",
  wanted: "202",
  record: "mailbox_state",
  async prepare(w) {
    const { a, b } = await w.pairedAgents();
    return () => w.message(a, b, { headers: { Prefer: "respond-async" } });
  },
}, {
  route: "GET /v1/relay/connect",
  name: "a connect, up to the socket",
  wanted: "426 PROXY_RELAY_UPGRADE_REQUIRED",
  record: "presence",
  // It stays when the store fails after the refusal.
  beside: ["presence"],
  async prepare(w) {
    const a = await w.agent();
    const upgrade: UpgradeWebSocket = () => {
      throw new TypeError("No socket can be opened here");
    };
    w.proxy.deps.upgrade = upgrade;
    return async () =>
      await w.fetch(
        await w.signed(a, { method: "GET", target: "/v1/relay/connect", headers: { Upgrade: "websocket" } }),
      );
  },
}, {
  route: "POST /v1/relay/delivery-receipts",
  name: "a receipt",
  wanted: "201",
  record: "receipt",
  async prepare(w) {
    const { a, b } = await w.pairedAgents();
    w.connect(b);
    await w.message(a, b, { headers: { "x-request-id": "request-0001" } });
    // The receipt's commit would also hold the outcome of the message.
    await w.proxy.deps.commits.flush();
    const body = receiptOf(w, b, "request-0001");
    return () => post(w, b, "/v1/relay/delivery-receipts", body);
  },
}, {
  route: "GET /v1/relay/delivery-receipts",
  name: "reading receipts",
  wanted: "200",
  record: "sender",
  async prepare(w) {
    const { a, b } = await w.pairedAgents();
    const query = new URLSearchParams({ requestId: "request-0001", recipientAgentDid: b.agent.did });
    return () => get(w, a, `/v1/relay/delivery-receipts?${query}`);
  },
}, {
  route: "POST /v1/relay/deliveries",
  name: "asking for outcomes",
  wanted: "200",
  record: "sender",
  async prepare(w) {
    const { a, b } = await w.pairedAgents();
    const messages = [{ requestId: "request-0001", recipientAgentDid: b.agent.did }];
    return () => post(w, a, "/v1/relay/deliveries", { messages });
  },
}, {
  route: "POST /pair/start",
  name: "a ticket",
  wanted: "200",
  record: "ticket",
  async prepare(w) {
    const a = await w.agent();
    return () => post(w, a, "/pair/start", { initiatorProfile: PROFILE });
  },
}, {
  route: "POST /pair/confirm",
  name: "a confirmation",
  wanted: "201",
  record: "pair",
  async prepare(w) {
    const a = await w.agent(), b = await w.agent();
    const ticket = await ticketOf(w, a);
    return () => post(w, b, "/pair/confirm", { ticket, responderProfile: PROFILE });
  },
}, {
  route: "POST /pair/accept",
  name: "a peer of another server",
  wanted: "201",
  record: "pair",
  async prepare(w) {
    const a = await w.agent();
    const peerKey = { publicKey: "A".repeat(43), mac: "A".repeat(43) };
    const peerAgentDid = `did:svc:b.example:agent:${w.newId()}`;
    return () =>
      post(w, a, "/pair/accept", { peerAgentDid, peerProxy: "https://b.example", peerProfile: PROFILE, peerKey });
  },
}, {
  route: "POST /pair/status",
  name: "the state of a ticket",
  wanted: "200",
  record: "sender",
  async prepare(w) {
    const a = await w.agent();
    const ticket = await ticketOf(w, a);
    return () => post(w, a, "/pair/status", { ticket });
  },
}, {
  route: "GET /pair/peers",
  name: "the list of peers",
  wanted: "200",
  record: "sender",
  async prepare(w) {
    const { a } = await w.pairedAgents();
    return () => get(w, a, "/pair/peers");
  },
}, {
  route: "POST /pair/remove",
  name: "the end of a pair",
  wanted: "204",
  // Deletes without a check: it cannot conflict.
  record: "sender",
  async prepare(w) {
    const { a, b } = await w.pairedAgents();
    return () => post(w, a, "/pair/remove", { peerAgentDid: b.agent.did });
  },
}];

Deno.test("every route of the proxy that writes to the store is covered", () => {
  const steps = new Set(STEPS.map(({ route }) => route));
  // The routes of an admin write nothing.
  const rows = PROXY_ROUTES.filter(({ auth }) => auth !== "none" && auth !== "admin_token").map(({ method, path }) =>
    `${method} ${path}`
  );
  assertEquals([...steps].sort(), rows.sort());
});

Deno.test("the routes of an admin are 503 while the store cannot be read", async (t) => {
  using faulty = await FaultyKv.open();
  await using w = await openProxy({ kv: faulty.kv });
  const token = await tokenOf(w);
  for (const path of ["connections", "queues", "deliveries?requestId=request-0001"]) {
    await t.step(path, async () => {
      // From now on the proxy has the keys of the registry, which uses the same store.
      assertEquals((await look(w, path, token)).status, 200);
      faulty.faults = { fails: ({ method }) => method !== "commit" };
      await refused(await look(w, path, token), "SERVICE_UNAVAILABLE");
      faulty.faults = {};
      assertEquals((await look(w, path, token)).status, 200);
    });
  }
});

for (const { name, wanted, beside = [], prepare } of STEPS) {
  const trial = { open: openReady, prepare, wanted, beside: [...ADMISSION, ...beside] };

  Deno.test(`${name} writes all or nothing when any call of the store fails or a commit throws a TypeError`, () =>
    failEach(trial, GONE, { ...TOO_LARGE, beside: ["delivery"] }));
}

Deno.test("every route answers as usual when three in ten commits conflict, and no commit has over ten checks", async (t) => {
  for (const { name, wanted, prepare } of STEPS) {
    await t.step(name, async () => {
      using faulty = await FaultyKv.open({ maxChecks: 10 }, name.length);
      await using w = await openProxy({ kv: faulty.kv, maxChecks: 10 });
      const calls = [];
      for (let i = 0; i < 2; i++) calls.push(await prepare(w));
      faulty.faults = { maxChecks: 10, conflictRate: 0.3 };
      const counts = await withTime(w, tally(calls.map((call) => call())), 20);
      // Ten conflicts in a row have a probability of 1 in 170,000.
      assertEquals(counts, { [wanted]: calls.length });
      assert(faulty.mostChecks > 0 && faulty.mostChecks <= 10, `${faulty.mostChecks} checks`);
    });
  }
});

Deno.test("a record that always conflicts is 503 after ten attempts, or after 5 s where changes take turns", async (t) => {
  for (const { name, record, prepare } of STEPS) {
    await t.step(name, async () => {
      using faulty = await FaultyKv.open();
      await using w = await openProxy({ kv: faulty.kv });
      const call = await prepare(w);
      let tries = 0;
      faulty.faults = { conflicts: ({ keys }) => keys.some((key) => key[1] === record) && ++tries > 0 };
      const began = w.clock.now();
      const result = await withTime(w, call().then(outcome), 100);
      assert(/^503 /.test(result), result);
      const seconds = (w.clock.now() - began) / 1000;
      // The first attempt of a claim uses cached records, the next ones read them again.
      assert(tries >= 2 && (tries <= 11 || seconds >= 5 && seconds < 6), `${tries} tries in ${seconds} s`);
    });
  }
});

Deno.test("an occasional failed read is 503 or has no effect, and no message is delivered twice", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openProxy({ kv: faulty.kv });
  const { a, b } = await w.pairedAgents();
  const socket = w.connect(b);
  await w.connected();
  const random = seededRandom(9);
  faulty.faults = { fails: ({ method }) => method !== "commit" && fraction(random) < 0.2 };
  const results: string[] = [];
  for (let n = 0; n < 25; n++) {
    const parts = { body: JSON.stringify({ n }), headers: { "x-request-id": `request-${1000 + n}` } };
    let result = "";
    while (result !== "202") {
      result = await outcome(await w.message(a, b, parts));
      assert(/^(202|503 .*)$/.test(result), result);
      results.push(result);
    }
  }
  assert(results.length > 25, "no read failed");
  assertEquals(socket.delivered.map(({ payload }) => JSON.parse(payload).n), Array.from({ length: 25 }, (_, n) => n));
});
