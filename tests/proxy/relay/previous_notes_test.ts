/**
 * Shows that two neighbouring versions exchange notes over one store during a rolling restart (D-99): an instance
 * handles the notes that the previous version writes, and writes notes that the previous version reads. Keys and texts
 * of the notes are frozen here; they are not built by the product.
 */
import { assertEquals } from "@std/assert";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { until } from "../../support/until.ts";
import { type TestAgent, World } from "../../support/world.ts";

/** Instance of the previous version. */
const PREVIOUS = "01J0000000000000000000000P";

/** The notes of the previous version; `{…}` stands for a value of the test. */
const NOTES = {
  message:
    '{"kind":"message","id":"note-1","from":"{previous}","message":{"requestId":"request-0001","fromAgentDid":"{a}",' +
    '"toAgentDid":"{b}","identity":{"agentDid":"{a}","ownerDid":"{owner}","issuer":"https://registry.example.test",' +
    '"aitJti":"01J0000000000000000000000J","name":"a"},"contentType":"application/json","conversationId":"c-1"},' +
    '"mayQueue":false,"timeoutMs":10000}',
  dispatched: '{"kind":"dispatched","id":"{id}","dispatched":{"result":"acked","accepted":true,"connectedSockets":1}}',
  moved: '{"kind":"moved","agentDid":"{b}"}',
  kick: '{"kind":"kick","agentDid":"{b}"}',
  paired: '{"kind":"paired","agentDid":"{b}","peerAgentDid":"{a}","profile":{"agentName":"a","humanName":"Ada"}}',
};

function note(kind: keyof typeof NOTES, values: Record<string, string>): unknown {
  return JSON.parse(NOTES[kind].replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? ""));
}

interface Fixture {
  w: World;
  a: TestAgent;
  b: TestAgent;
  values: Record<string, string>;
  /** Writes a note to the instance of this version, as the previous version does. */
  write(body: unknown, bytes?: Uint8Array): Promise<void>;
  /** Reads and deletes the notes for the previous version. */
  read(): Promise<{ body: Record<string, unknown>; parts: number; payload: string }[]>;
}

async function withPrevious(run: (fixture: Fixture) => Promise<void>): Promise<void> {
  await using w = await World.open();
  await w.proxy.start();
  const a = await w.agent(), b = await w.agent();
  await w.pair(a, b);
  const { kv } = w;
  const { instance } = w.proxy.deps.presence;
  const values = { previous: PREVIOUS, a: a.agent.did, b: b.agent.did, owner: a.owner.did };
  let written = 0;
  await run({
    w,
    a,
    b,
    values,
    async write(body, bytes) {
      const id = `01J000000000000000000000${String(++written).padStart(2, "0")}`;
      const operation = kv.atomic().set(["proxy", "inbox", instance, id], { body, parts: bytes ? 1 : 0 })
        .set(["proxy", "bell", instance], id);
      if (bytes) operation.set(["proxy", "inbox_part", instance, id, 0], bytes);
      await operation.commit();
    },
    async read() {
      const notes = await Array.fromAsync(
        kv.list<{ body: Record<string, unknown>; parts: number }>({ prefix: ["proxy", "inbox", PREVIOUS] }),
      );
      return await Promise.all(notes.map(async ({ key, value }) => {
        const part = ["proxy", "inbox_part", PREVIOUS, String(key.at(-1)), 0];
        const bytes = (await kv.get<Uint8Array>(part)).value ?? new Uint8Array();
        await kv.delete(key);
        return { ...value, payload: new TextDecoder().decode(bytes) };
      }));
    },
  });
}

Deno.test("a note written by the previous version is delivered by this one", () =>
  withPrevious(async ({ w, b, values, write, read }) => {
    const socket = w.connect(b);
    await w.connected();
    await write(note("message", values), new TextEncoder().encode('{"message":"hi"}'));
    await until(() => socket.delivered.length === 1);
    const { requestId, conversationId, payload, identity } = socket.delivered[0] ?? {};
    assertEquals([requestId, conversationId, payload, identity?.name], [
      "request-0001",
      "c-1",
      '{"message":"hi"}',
      "a",
    ]);
    let notes: Awaited<ReturnType<typeof read>> = [];
    await until(async () => (notes = await read()).length > 0);
    assertEquals(notes.map(({ body }) => body), [note("dispatched", { id: "note-1" })]);
  }));

Deno.test("a message to an agent of the previous version gets that version's result", () =>
  withPrevious(async ({ w, a, b, write, read }) => {
    await w.kv.set(["proxy", "presence", b.agent.did], { instance: PREVIOUS, epoch: 1 });
    await w.kv.set(["proxy", "instance", PREVIOUS], { until: w.clock.now() + LIMITS.instanceLeaseMs, pid: 1 });
    const sending = w.message(a, b);
    let notes: Awaited<ReturnType<typeof read>> = [];
    await until(async () => (notes = await read()).length > 0);
    const [{ body = {}, parts = 0, payload = "" } = {}] = notes;
    const message = body["message"] as Record<string, unknown>;
    assertEquals(
      [Object.keys(body).sort(), body["kind"], body["from"], parts],
      [
        ["from", "id", "kind", "mayQueue", "message", "timeoutMs"],
        "message",
        w.proxy.deps.presence.instance,
        1,
      ],
    );
    assertEquals([message["fromAgentDid"], message["toAgentDid"], payload.endsWith('hi"}')], [
      a.agent.did,
      b.agent.did,
      true,
    ]);
    await write(note("dispatched", { id: String(body["id"]) }));
    const response = await sending;
    assertEquals([response.status, (await response.json()).delivered], [202, true]);
  }));

Deno.test("a socket is closed when the previous version reports that its agent has moved", () =>
  withPrevious(async ({ w, b, values, write }) => {
    const socket = w.connect(b);
    await w.connected();
    await w.kv.set(["proxy", "presence", b.agent.did], { instance: PREVIOUS, epoch: 2 });
    await write(note("moved", values));
    await until(() => socket.closed !== null);
    assertEquals(socket.closed?.code, 4409);
  }));

Deno.test("a mailbox is delivered when the previous version reports a queued message", () =>
  withPrevious(async ({ w, a, b, values, write }) => {
    const socket = w.connect(b);
    await w.connected();
    const { mailbox } = w.proxy.deps;
    const { agentDid, ownerDid } = { agentDid: a.agent.did, ownerDid: a.owner.did };
    const identity = { agentDid, ownerDid, issuer: "https://registry.example.test", aitJti: w.newId(), name: "a" };
    const message = {
      requestId: "request-0002",
      fromAgentDid: agentDid,
      toAgentDid: b.agent.did,
      identity,
      contentType: "application/json",
      payload: "{}",
    };
    await w.proxy.deps.commits.claim([mailbox.enqueue(message, mailbox.expiry())]);
    assertEquals(socket.delivered.length, 0);
    await write(note("kick", values));
    await until(() => socket.delivered.length === 1);
    assertEquals(socket.delivered[0]?.requestId, "request-0002");
  }));

Deno.test("an agent gets a paired frame when the previous version reports a new pair", () =>
  withPrevious(async ({ w, a, b, values, write }) => {
    const socket = w.connect(b);
    await w.connected();
    await write(note("paired", values));
    await until(() => socket.frames.some(({ type }) => type === "paired"));
    const frame = socket.frames.find((one) => one.type === "paired");
    assertEquals([frame?.peerAgentDid, frame?.profile], [a.agent.did, { agentName: "a", humanName: "Ada" }]);
  }));
