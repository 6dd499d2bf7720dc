/** The links between instances: messages over them, what happens when one is lost, and who may open one (D-370). */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { joinedBytes, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { RENEW_MS } from "../../../proxy/relay/instance_leases.ts";
import type { MessageNote, Note } from "../../../proxy/relay/instance_note.ts";
import type { InstanceLease } from "../../../proxy/schema/records.ts";
import { begunOf } from "../../../proxy/schema/sender_record.ts";
import { expositionOf } from "../../../shared/server/metrics/metrics.ts";
import { LinkNetwork } from "../../support/link_network.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { codeOf, type TestAgent, type World } from "../../support/world.ts";
import { instancesBehaveAsOne } from "./instances_suite.ts";
import { connected, sharedStore, two } from "./two_instances.ts";

/** Two instances with a link. */
async function linked(
  run: (w1: World, w2: World, a: TestAgent, b: TestAgent, network: LinkNetwork) => Promise<void>,
): Promise<void> {
  const network = new LinkNetwork();
  await two(() => sharedStore(network), (w1, w2, a, b) => run(w1, w2, a, b, network), {
    proxy: { agentRequests: 1000 },
  });
}

const crossed = (w: World) => w.proxy.deps.forwarder.crossed;
const notes = async (w: World) => (await Array.fromAsync(w.kv.list({ prefix: ["proxy", "inbox"] }))).length;
const linksOf = (w: World) => w.proxy.deps.links;
const nameOf = (w: World) => w.proxy.deps.leases.instance;

/** Returns what arrives at an instance from now on, which then handles none of it. */
function arrivals(w: World): [body: unknown, bytes: Uint8Array][] {
  const all: [unknown, Uint8Array][] = [];
  linksOf(w).onMessage = (...message) => void all.push(message);
  return all;
}

/** One message of a frame. */
function part(text: string, length = text.length): Uint8Array {
  const head = new Uint8Array(4);
  new DataView(head.buffer).setUint32(0, length);
  return joinedBytes([head, utf8Bytes(text)]);
}

instancesBehaveAsOne("over a link", () => sharedStore(new LinkNetwork()));

Deno.test("a message takes the link, and neither it nor its result is written to the store", () =>
  linked(async (w1, w2, a, b) => {
    const socket = await connected(w2, b);
    const body = JSON.stringify({ text: "€\n".repeat(40_000) });
    for (let n = 0; n < 3; n++) assertEquals((await w1.message(a, b, { body })).status, 202);
    assertEquals(socket.delivered.map(({ payload }) => payload), [body, body, body]);
    assertEquals([crossed(w1), await notes(w1)], [{ link: 3, note: 0 }, 0]);
    const metrics = expositionOf(w1.metrics);
    for (
      const line of ['svc_relay_crossings_total{way="link"} 3', "svc_instance_links 1", "svc_instance_links_missing 0"]
    ) {
      assert(metrics.includes(line), line);
    }
  }));

Deno.test("a result that was lost with its link is asked for, and the message arrives once", () =>
  linked(async (w1, w2, a, b, network) => {
    const socket = await connected(w2, b, "silent");
    const sending = w1.message(a, b);
    await until(() => socket.delivered.length === 1);
    // The answer of the other instance is sent, and does not arrive.
    network.isMute = true;
    socket.ack(socket.delivered[0]?.id ?? "");
    await flushTasks();
    network.isMute = false;
    network.cut();
    const response = await sending;
    assertEquals([response.status, (await response.json()).delivered], [202, true]);
    assertEquals(socket.delivered.length, 1);
  }));

Deno.test("a message that was lost with its link fails, and is not delivered when it arrives late", () =>
  linked(async (w1, w2, a, b, network) => {
    const socket = await connected(w2, b);
    const late = Promise.withResolvers<[unknown, Uint8Array]>();
    const { onMessage } = linksOf(w2);
    linksOf(w2).onMessage = (...message) => late.resolve(message);
    const sending = w1.message(a, b);
    const message = await late.promise;
    network.cut();
    assertEquals(await codeOf(await sending), "PROXY_RELAY_DELIVERY_FAILED");
    onMessage(...message);
    await flushTasks();
    assertEquals(socket.delivered.length, 0);
    linksOf(w2).onMessage = onMessage;
    assertEquals((await w1.message(a, b)).status, 202);
    assertEquals(crossed(w1), { link: 1, note: 1 });
  }));

Deno.test("a delivery that goes on when its link is lost answers with a note", () =>
  linked(async (w1, w2, a, b, network) => {
    const socket = await connected(w2, b, "silent");
    const sending = w1.message(a, b);
    await until(() => socket.delivered.length === 1);
    network.isDown = true;
    network.cut();
    await flushTasks();
    socket.ack(socket.delivered[0]?.id ?? "");
    assertEquals((await sending).status, 202);
    assertEquals(socket.delivered.length, 1);
  }));

Deno.test("a link that is lost during the commit, or that is full, means a note", () =>
  linked(async (w1, w2, a, b) => {
    const socket = await connected(w2, b);
    const links = linksOf(w1), { send } = links;
    links.send = () => false;
    assertEquals((await w1.message(a, b)).status, 202);
    links.send = send;
    const { has } = links;
    links.has = () => false;
    assertEquals((await w1.message(a, b)).status, 202);
    links.has = has;
    assertEquals((await w1.message(a, b)).status, 202);
    assertEquals([socket.delivered.length, crossed(w1)], [3, { link: 1, note: 2 }]);
  }));

Deno.test("an instance says which link is missing, opens it again, and messages go as notes meanwhile", () =>
  linked(async (w1, w2, a, b, network) => {
    await connected(w2, b);
    network.isDown = true;
    network.cut();
    await until(() => linksOf(w1).size === 0 && linksOf(w2).size === 0);
    assertEquals(linksOf(w1).missing, [w2.proxy.deps.leases.instance]);
    const ready = await (await w1.proxy.fetch(new Request("https://proxy.example.test/readyz"), w1.peer)).json();
    assertEquals(ready.linksMissing, [w2.proxy.deps.leases.instance]);
    assertEquals((await w1.message(a, b)).status, 202);
    network.isDown = false;
    await w1.clock.advance(5_000);
    await until(() => linksOf(w1).size === 1 && linksOf(w2).size === 1);
    assertEquals((await w1.message(a, b)).status, 202);
    assertEquals([crossed(w1), linksOf(w1).missing], [{ link: 1, note: 1 }, []]);
  }));

Deno.test("an instance that stops is sent no further message, and its results still arrive over the link", () =>
  linked(async (w1, w2, a, b) => {
    const socket = await connected(w2, b, "silent");
    const sending = w1.message(a, b);
    await until(() => socket.delivered.length === 1);
    linksOf(w2).leave();
    await until(() => !linksOf(w1).has(w2.proxy.deps.leases.instance));
    socket.ack(socket.delivered[0]?.id ?? "");
    assertEquals([(await sending).status, await notes(w1)], [202, 0]);
  }));

Deno.test("a message that crosses a link reads neither a lease nor an inbox", () =>
  linked(async (w1, w2, a, b) => {
    await connected(w2, b);
    assertEquals((await w1.message(a, b)).status, 202);
    await flushTasks();
    const calls: string[] = [];
    for (const w of [w1, w2]) {
      for (const name of ["get", "getMany", "list"] as const) {
        const call = w.kv[name].bind(w.kv) as (...args: unknown[]) => unknown;
        Object.assign(w.kv, {
          [name]: (...args: unknown[]) => {
            calls.push(name);
            return call(...args);
          },
        });
      }
    }
    assertEquals((await w1.message(a, b)).status, 202);
    assertEquals(calls.filter((name) => name !== "getMany"), []);
  }));

Deno.test("a silent link is lost after 12 s", () =>
  linked(async (w1, w2, _a, _b, network) => {
    network.isDown = network.isMute = true;
    await w1.clock.advance(7_000);
    assertEquals([linksOf(w1).size, linksOf(w2).size], [1, 1]);
    await w1.clock.advance(9_000);
    assertEquals([linksOf(w1).size, linksOf(w2).size], [0, 0]);
  }));

Deno.test("a silent link is lost after 12 s, also when the clock was set back by an hour", () =>
  linked(async (w1, w2, _a, _b, network) => {
    network.isDown = network.isMute = true;
    w1.clock.step(-3_600_000);
    await w1.clock.advance(20_000);
    assertEquals([linksOf(w1).size, linksOf(w2).size], [0, 0]);
  }));

Deno.test("without the key of the lease no socket opens, and a proof counts once and for 10 s", () =>
  linked(async (w1, w2, _a, _b, network) => {
    const { value } = await w1.kv.get<InstanceLease>(KEYS.instance(w2.proxy.deps.leases.instance));
    assert(value?.link && value.link.key.length === 43);
    const dialled = network.requests.filter((path) => path.startsWith("/link?")).at(-1) ?? "";
    const host = (w: World) => w === w1 ? "w1" : "w2";
    const target = w1.proxy.deps.leases.instance < w2.proxy.deps.leases.instance ? w2 : w1;
    const ask = async (path: string, init: RequestInit = {}) =>
      (await linksOf(target).answer(new Request(`http://${host(target)}${path}`, init))).status;
    // The request that opened the link, once more.
    assertEquals(await ask(dialled), 403);
    const challenge = await (await linksOf(target).answer(new Request("http://w/challenge"))).text();
    const query = (change: Record<string, string>) => {
      const all = new URLSearchParams(dialled.slice("/link?".length));
      for (const [name, text] of Object.entries({ challenge, ...change })) all.set(name, text);
      return `/link?${all}`;
    };
    assertEquals(await ask(query({})), 403);
    assertEquals(await ask(query({ proof: "" })), 403);
    assertEquals(await ask(query({ from: "someone" })), 403);
    assertEquals(await ask("/link"), 403);
    assertEquals(await ask(`/link?${"a".repeat(2_000)}`), 404);
    assertEquals(await ask("/challenge", { method: "POST", body: "x" }), 404);
    assertEquals(await ask("/hooks/agent"), 404);
  }));

Deno.test("an answer that comes after the time to open a link opens none", () =>
  linked(async (w1, w2, _a, _b, network) => {
    const from = w1.proxy.deps.leases.instance < w2.proxy.deps.leases.instance ? w1 : w2;
    network.isMute = true;
    network.cut();
    const { open } = network, sockets: WebSocket[] = [];
    const sent: unknown[] = [];
    Object.assign(network, {
      open: (url: string) => {
        const socket = open(url), other = (socket as unknown as { other: { send(data: unknown): void } }).other;
        const { send } = other;
        other.send = (data) => {
          sent.push(data);
          send.call(other, data);
        };
        socket.close = () => {};
        sockets.push(socket);
        return socket;
      },
    });
    await from.clock.advance(RENEW_MS);
    await from.clock.advance(2_000);
    for (const socket of sockets) socket.onmessage?.(new MessageEvent("message", { data: sent[0] }));
    assertEquals([sockets.length > 0, linksOf(from).size], [true, 0]);
  }));

Deno.test("a link does not open at an instance that has stopped since its answer", () =>
  linked(async (w1, w2, _a, _b, network) => {
    const [from, to] = w1.proxy.deps.leases.instance < w2.proxy.deps.leases.instance ? [w1, w2] : [w2, w1];
    network.cut();
    await until(() => linksOf(from).size === 0 && linksOf(to).size === 0);
    const { answer } = linksOf(to);
    let answered = 0;
    linksOf(to).answer = (request) => {
      const response = answer.call(linksOf(to), request);
      if (request.url.includes("/link?")) {
        answered++;
        linksOf(to).stop();
      }
      return response;
    };
    await from.clock.advance(RENEW_MS);
    await flushTasks();
    assertEquals([answered, linksOf(from).size, linksOf(to).size], [1, 0, 0]);
  }));

Deno.test("what one turn sends to an instance is one frame, and its messages arrive in order", () =>
  linked(async (w1, w2, _a, _b, network) => {
    const arrived = arrivals(w2), to = nameOf(w2);
    await flushTasks();
    network.frames.length = 0;
    const sent: [unknown, Uint8Array][] = [
      [{ n: 1 }, utf8Bytes("\n€\n")],
      [{ n: 2 }, new Uint8Array()],
      [{ n: 3, text: "\n" }, new Uint8Array(70_000).fill(10)],
    ];
    for (const message of sent) assert(linksOf(w1).send(to, ...message));
    await flushTasks();
    assertEquals([arrived, network.frames.length], [sent, 1]);
    assert(linksOf(w1).send(to, { n: 4 }));
    await flushTasks();
    assertEquals([arrived.at(-1), network.frames.length], [[{ n: 4 }, new Uint8Array()], 2]);
  }));

Deno.test("messages that are too many for one frame are two, and one that is too long for a frame is not sent", () =>
  linked(async (w1, w2, _a, _b, network) => {
    const arrived = arrivals(w2), to = nameOf(w2), most = 2 * LIMITS.frameBytes - part("0\n").length;
    await flushTasks();
    network.frames.length = 0;
    assert(!linksOf(w1).send(to, 0, new Uint8Array(most + 1)));
    for (const bytes of [9, most, 1, 2]) assert(linksOf(w1).send(to, 0, new Uint8Array(bytes)));
    await flushTasks();
    assertEquals(arrived.map(([, { length }]) => length), [9, most, 1, 2]);
    assertEquals(network.frames, [15, 2 * LIMITS.frameBytes, 15]);
    assertEquals(linksOf(w1).size, 1);
  }));

Deno.test("a frame that is cut, too long, or no JSON ends its link, and nothing after the fault is passed on", () =>
  linked(async (w1, w2, _a, _b, network) => {
    const good = part('"good"\n'), zeros = (length: number) => new Uint8Array(length);
    const faults: Record<string, Uint8Array[]> = {
      "length cut to one byte": [zeros(1)],
      "length cut by one byte": [zeros(3)],
      "length 0": [zeros(4), good],
      "message cut": [part('"cut"\n', 7)],
      "largest length": [part('"cut"\n', 2 ** 32 - 1), good],
      "no line feed": [part('"good"'), good],
      "no JSON": [part("good\n"), good],
      "a message without its length": [utf8Bytes('"good"\n'), good],
      "too long": [part('"long"\n', 2 * LIMITS.frameBytes), zeros(2 * LIMITS.frameBytes - 7)],
    };
    for (const [name, fault] of Object.entries(faults)) {
      await until(() => linksOf(w1).size === 1 && linksOf(w2).size === 1);
      const arrived = [arrivals(w1), arrivals(w2)];
      network.inject(joinedBytes([good, ...fault]));
      assertEquals([linksOf(w1).size, linksOf(w2).size], [0, 0], name);
      const bodies = name === "too long" ? [] : ["good"];
      assertEquals(arrived.map((all) => all.map(([body]) => body)), [bodies, bodies], name);
      await w1.clock.advance(RENEW_MS);
    }
  }));

Deno.test("any messages arrive unchanged, and of a damaged frame those before the damage", () =>
  linked(async (w1, w2, _a, _b, network) => {
    const bytes = fc.uint8Array({ maxLength: 20 }).map((some) => Uint8Array.from(some));
    const messages = fc.array(fc.tuple(fc.jsonValue({ maxDepth: 2 }).filter((body) => body !== null), bytes), {
      minLength: 1,
      maxLength: 5,
    });
    const isLinked = () => linksOf(w1).size === 1 && linksOf(w2).size === 1;
    await fc.assert(
      fc.asyncProperty(messages, async (sent) => {
        await until(isLinked);
        const arrived = arrivals(w2);
        for (const message of sent) assert(linksOf(w1).send(nameOf(w2), ...message));
        await flushTasks();
        const plain = (all: readonly (readonly [unknown, Uint8Array])[]) =>
          all.map(([body, { length }]) => [JSON.stringify(body), length]);
        assertEquals(plain(arrived), plain(sent));
      }),
      { numRuns: 15 },
    );
    const texts = fc.array(fc.stringMatching(/^[a-z\n]{0,8}$/), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(texts, fc.nat(60), fc.oneof(bytes, fc.constant(utf8Bytes("\n"))), async (texts, at, other) => {
        await until(isLinked);
        const arrived = arrivals(w2), good = joinedBytes(texts.map((text) => part(`"x"\n${text}`)));
        const from = Math.min(at, good.length);
        network.inject(joinedBytes([good.subarray(0, from), other, good.subarray(from + other.length)]));
        await flushTasks();
        let end = 0;
        const whole = texts.filter((text) => (end += 8 + text.length) <= from);
        assertEquals(arrived.slice(0, whole.length).map(([, { length }]) => length), whole.map(({ length }) => length));
        if (!isLinked()) await w1.clock.advance(RENEW_MS);
      }),
      { numRuns: 30 },
    );
  }));

Deno.test("a message that waits does not keep the rest of its frame in memory", () =>
  linked(async (w1, w2) => {
    const arrived = arrivals(w2);
    for (const bytes of [10, 100_000]) assert(linksOf(w1).send(nameOf(w2), {}, new Uint8Array(bytes)));
    await flushTasks();
    assertEquals(arrived.map(([, { buffer }]) => buffer.byteLength), [10, 100_000]);
  }));

Deno.test("what a turn has sent before its instance stops leaves with the link", () =>
  linked(async (w1, w2, _a, _b, network) => {
    await flushTasks();
    network.frames.length = 0;
    assert(linksOf(w1).send(nameOf(w2), 0));
    linksOf(w1).stop();
    assertEquals(network.frames, [part("0\n").length]);
  }));

Deno.test("a message is not sent over a link that is lost while it makes room for it", () =>
  linked((w1, w2, _a, _b, network) => {
    const to = nameOf(w2), large = new Uint8Array(LIMITS.frameBytes), lost: string[] = [];
    linksOf(w1).onLost = (instance) => void lost.push(instance);
    assert(linksOf(w1).send(to, 0, large));
    network.isBroken = true;
    assertEquals([linksOf(w1).send(to, 0, large), linksOf(w1).size, lost], [false, 0, [to]]);
    network.isBroken = false;
    return Promise.resolve();
  }));

Deno.test("a message of a turn whose link cannot be written to fails at once, and the next one goes as a note", () =>
  linked(async (w1, w2, a, b, network) => {
    const socket = await connected(w2, b);
    network.isDown = network.isBroken = true;
    assertEquals(await codeOf(await w1.message(a, b)), "PROXY_RELAY_DELIVERY_FAILED");
    network.isBroken = false;
    assertEquals([linksOf(w1).size, socket.delivered.length], [0, 0]);
    assertEquals((await w1.message(a, b)).status, 202);
    assertEquals([socket.delivered.length, crossed(w1)], [1, { link: 1, note: 1 }]);
  }));

Deno.test("the messages of one frame are looked up together, ten records in a call, and each is delivered", () =>
  linked(async (w1, w2, a, b) => {
    const socket = await connected(w2, b);
    const { onMessage } = linksOf(w2), held = arrivals(w2);
    const sending = Array.from({ length: 5 }, () => w1.message(a, b));
    await until(() => held.filter(([body]) => (body as { kind: string }).kind === "message").length === 5);
    const { getMany } = w2.kv, pair = JSON.stringify(KEYS.pair(a.agent.did, b.agent.did));
    const looks: number[] = [];
    w2.kv.getMany = ((keys: readonly Deno.KvKey[]) => {
      if (keys.some((key) => JSON.stringify(key) === pair)) looks.push(keys.length);
      return getMany.call(w2.kv, [...keys]);
    }) as typeof getMany;
    linksOf(w2).onMessage = onMessage;
    for (const message of held) onMessage(...message);
    assertEquals((await Promise.all(sending)).map(({ status }) => status), Array(5).fill(202));
    w2.kv.getMany = getMany;
    assertEquals([socket.delivered.length, looks], [5, [10, 5]]);
  }));

Deno.test("an answered message is over, also once a later one has taken it from the record of the sender", () =>
  linked(async (w1, w2, a, b) => {
    await connected(w2, b);
    const { onMessage } = linksOf(w2), { here } = w2.proxy.deps;
    const notes: MessageNote[] = [];
    linksOf(w2).onMessage = (body, bytes) => {
      if ((body as Note).kind === "message") notes.push(body as MessageNote);
      onMessage(body, bytes);
    };
    assertEquals((await w1.message(a, b)).status, 202);
    // The 202 waits 20 ms to share a commit.
    await w1.clock.advance(100);
    const [note] = notes;
    assert(note);
    const looks = async () => {
      const begun = begunOf(await w2.kv.get(KEYS.sender(a.agent.did)));
      const isBegun = begun.some(({ requestId }) => requestId === note.message.requestId);
      return [isBegun, await here.look(note.message, note.attempt)];
    };
    assertEquals(await looks(), [true, "over"]);
    assertEquals((await w1.message(a, b)).status, 202);
    assertEquals(await looks(), [false, "over"]);
  }));

Deno.test("over a network, an instance reads a pair again after a second, and delivers nothing once it has ended", () => {
  const network = new LinkNetwork();
  const store = async () => ({ ...await sharedStore(network), maxChecks: LIMITS.commitChecksConnect });
  return two(store, async (w1, w2, a, b) => {
    const socket = await connected(w2, b, "silent");
    const { onMessage } = linksOf(w2), { here } = w2.proxy.deps, { getMany } = w2.kv;
    const notes: MessageNote[] = [], pair = JSON.stringify(KEYS.pair(a.agent.did, b.agent.did));
    linksOf(w2).onMessage = (body, bytes) => {
      if ((body as Note).kind === "message") notes.push(body as MessageNote);
      onMessage(body, bytes);
    };
    const sending = w1.message(a, b);
    await until(() => socket.delivered.length === 1);
    const [note] = notes;
    assert(note);
    let reads = 0;
    w2.kv.getMany = ((keys: readonly Deno.KvKey[]) => {
      reads += keys.filter((key) => JSON.stringify(key) === pair).length;
      return getMany.call(w2.kv, [...keys]);
    }) as typeof getMany;
    const look = async () => [await here.look(note.message, note.attempt), reads];
    await w2.kv.delete(KEYS.pair(a.agent.did, b.agent.did));
    assertEquals(await look(), ["here", 0]);
    await w1.clock.advance(1_000);
    assertEquals(await look(), ["over", 1]);
    assertEquals(await look(), ["over", 2]);
    w2.kv.getMany = getMany;
    socket.ack(socket.delivered[0]?.id ?? "");
    await sending;
  });
});
