/** A full disk under the connector's store: the reason is reported, and no action is repeated meanwhile. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { isConnectorHealthy, statusFields } from "../../../cli/connector/status.ts";
import { connectorChecks } from "../../../cli/commands/provider/checks.ts";
import { fields } from "../../../cli/terminal/output.ts";
import { World } from "../../support/world.ts";
import { isDown, passing, story } from "./bench.ts";
import { FailingDisk } from "./failing_disk.ts";
import { lacksRoom } from "../../../cli/connector/store/database.ts";
import { peerTokenHash } from "../../../cli/connector/local_api/a2a_peers.ts";
import { asker, post, TOKEN } from "./local_api/local_caller.ts";
import { tempFolder } from "../../support/process.ts";
import { until } from "../../support/until.ts";

const reasons = (events: { why?: unknown }[]) => events.map(({ why }) => String(why));

Deno.test("a transaction on a full disk reports the full disk, not the failed rollback", async () => {
  await using folder = await tempFolder();
  const disk = new FailingDisk();
  using database = disk.open(`${folder.path}/connector.db`);
  disk.isFull = true;
  for (const write of [database.transaction, database.transactionWithoutSync]) {
    assertThrows(() => write.call(database, () => 1), Error, "The disk is full");
  }
  disk.isFull = false;
  assertEquals(database.transaction(() => 1), 1);
});

Deno.test("a look for room writes nothing where the system knows that there is none", async () => {
  await using folder = await tempFolder();
  const path = `${folder.path}/connector.db`;
  // More than any disk has. A write of it would not be one of a full disk.
  assertEquals([lacksRoom(path, 2 ** 60), lacksRoom(path, 1)], [true, false]);
});

for (
  const [result, behaviour, event] of [
    ["handed over", () => Response.json({ ok: true }), "handed_over"],
    ["refused", () => new Response(null, { status: 503 }), "handover_failed"],
  ] as const
) {
  Deno.test(`a message is ${result} once while its result cannot be stored and continues when it can`, async () => {
    await using world = await World.open();
    const disk = new FailingDisk();
    const { a, b, bench } = await story(world, { database: disk.open });
    bench.behaviour = () => {
      disk.isFull = true;
      return behaviour();
    };
    await world.message(a, b);
    await until(() => bench.eventsOf("store_failed").length > 0);
    assertStringIncludes(reasons(bench.eventsOf("store_failed"))[0] ?? "", "disk is full");
    await world.clock.advance(120_000);
    assertEquals([bench.handedOver.length, bench.connector.status().inbox.waiting], [1, 1]);
    bench.behaviour = behaviour;
    disk.isFull = false;
    await passing(world, 2, () => bench.eventsOf(event).length > 0);
    if (event !== "handed_over") return;
    await until(() => bench.eventsOf("receipt_sent").length === 1);
    assertEquals([bench.eventsOf(event).length, bench.handedOver.length], [1, 1]);
  });
}

Deno.test("a connector that cannot store messages is unhealthy until it can, and says why", async () => {
  await using world = await World.open();
  const disk = new FailingDisk();
  const { a, b, bench } = await story(world, { database: disk.open });
  const seen = () => {
    const status = bench.connector.status();
    const failed = connectorChecks({ name: "alpha" }, null, status).filter(({ ok }) => !ok);
    return [isConnectorHealthy(status), status.inbox.problem, failed.map(({ name }) => name).join()];
  };
  assertEquals(seen(), [true, null, ""]);
  disk.isFull = true;
  const answer = await (await world.message(a, b)).json();
  assertEquals([answer.delivered, answer.reason], [false, "store_failed"]);
  const [isHealthy, problem, failed] = seen();
  assert(!isHealthy && String(problem).includes("disk is full"));
  assertStringIncludes(String(failed), "inbox");
  assertStringIncludes(fields(statusFields(bench.connector.status())).join("\n"), "messages cannot be stored: ");
  disk.isFull = false;
  assertEquals(seen(), [true, null, ""], "there is room, also before the next message");
  assertEquals((await (await world.message(a, b)).json()).delivered, true);
  assertEquals(seen(), [true, null, ""]);
});

Deno.test("a connector is unhealthy while the disk is full, also when a hand-over found it and a message fitted", async () => {
  await using world = await World.open();
  const disk = new FailingDisk();
  const { a, b, bench } = await story(world, { database: disk.open });
  const isHealthy = () => isConnectorHealthy(bench.connector.status());
  bench.behaviour = () => {
    disk.isFull = true;
    return Response.json({ ok: true });
  };
  await world.message(a, b);
  await until(() => bench.eventsOf("store_failed").length > 0);
  assertEquals(isHealthy(), false, "the result of a hand-over could not be stored");
  disk.hasRest = true;
  assertEquals((await (await world.message(a, b)).json()).delivered, true);
  assertEquals(isHealthy(), false, "one more message found room in the log");
  disk.isFull = false;
  assertEquals(isHealthy(), true);
});

Deno.test("an access token that could not be refreshed is named by the status and by provider doctor", async () => {
  await using world = await World.open();
  const { bench } = await story(world);
  const failed = () => connectorChecks({ name: "alpha" }, null, bench.connector.status()).filter(({ ok }) => !ok);
  const shown = () => fields(statusFields(bench.connector.status())).join("\n");
  assertEquals([failed(), shown().includes("access problem")], [[], false]);
  bench.session.problem = "refresh.pending could not be written: the disk is full";
  assertEquals(failed().map(({ name, seen }) => [name, seen]), [["access token", bench.session.problem]]);
  assertStringIncludes(shown(), `it could not be refreshed: ${bench.session.problem}`);
  bench.session.problem = null;
  bench.session.accessExpiresAt = world.clock.now() - 1;
  assertEquals(failed().map(({ name }) => name), ["access token"]);
});

Deno.test("no other message is handed over while a result cannot be stored", async () => {
  await using world = await World.open();
  const disk = new FailingDisk();
  const { a, b, bench } = await story(world, { database: disk.open, behaviour: isDown });
  const c = await world.agent();
  await world.pair(c, b);
  for (const sender of [a, c]) await world.message(sender, b);
  await until(() => bench.eventsOf("handover_failed").length === 2);
  let calls = 0;
  bench.behaviour = () => {
    calls++;
    disk.isFull = true;
    return Response.json({ ok: true });
  };
  await passing(world, 60, () => bench.eventsOf("store_failed").length > 0);
  const before = calls;
  await world.clock.advance(120_000);
  assertEquals(calls, before);
  disk.isFull = false;
  bench.behaviour = () => {
    calls++;
    return Response.json({ ok: true });
  };
  await passing(world, 60, () => bench.eventsOf("handed_over").length === 2);
  assertEquals(calls, 2);
});

Deno.test("a receipt is sent once while the disk is full", async () => {
  await using world = await World.open();
  const disk = new FailingDisk();
  let sent = 0;
  const { a, b, bench } = await story(world, {
    database: disk.open,
    fetch: async (input, init) => {
      const response = await world.fetch(input, init);
      if (String(input).endsWith("/v1/relay/delivery-receipts") && init?.method === "POST") {
        sent++;
        disk.isFull = true;
      }
      return response;
    },
  });
  await world.message(a, b);
  await until(() => sent === 1);
  await until(() => bench.eventsOf("store_failed").length > 0);
  await world.clock.advance(120_000);
  assertEquals(sent, 1);
  const told = bench.eventsOf("store_failed").length;
  assert(told <= 2, `the full disk is told ${told} times in two minutes`);
  disk.isFull = false;
  await passing(world, 60, () => bench.connector.status().receiptsWaiting === 0);
  assertEquals([sent, bench.eventsOf("receipt_sent").length <= 1], [1, true]);
  await world.message(a, b);
  await until(() => sent === 2);
  await world.clock.advance(120_000);
  assertEquals(bench.eventsOf("store_failed").length, 2 * told, "a disk that is full again is told again");
});

Deno.test("each call that stores something answers 507 while the disk is full, and stores it afterwards", async (t) => {
  await using world = await World.open();
  const disk = new FailingDisk();
  const { a, b, bench } = await story(world, { database: disk.open, platform: "inbox" });
  world.connect(a);
  for (const n of [1, 2]) await world.message(a, b, { headers: { "x-request-id": `request-${n}` } });
  const peer = { alias: "a", did: a.agent.did, tokenHash: peerTokenHash(TOKEN), addedAt: "2026-01-01T00:00:00.000Z" };
  const ask = asker(bench, [], [peer]);
  const message = { messageId: "m-1", role: "ROLE_USER", parts: [{ text: "hi" }] };
  const calls: [path: string, body: unknown][] = [
    ["/v1/inbox/read", { ids: [1], lease: 60 }],
    ["/v1/inbox/read", { ids: [2] }],
    ["/v1/outbound", { to: a.agent.did, text: "hi" }],
    ["/v1/outbound?wait=1", { to: a.agent.did, text: "hi" }],
    ["/a2a/a", { jsonrpc: "2.0", id: 1, method: "SendMessage", params: { message } }],
    ["/v1/dead-letter/replay", { all: true }],
    ["/v1/dead-letter/purge", { all: true }],
  ];
  for (const [path, body] of calls) {
    await t.step(`${path} ${JSON.stringify(body)}`, async () => {
      disk.isFull = true;
      const { status, body: { error } } = await ask(path, post(body));
      assertEquals([status, error.code], [507, "CONNECTOR_DISK_FULL"]);
      disk.isFull = false;
    });
  }
  assertEquals(bench.eventsOf("sent"), [], "no message has left");
  assertEquals((await ask("/v1/inbox/read", post({ ids: [1, 2] }))).body, { read: [1, 2] });
});
