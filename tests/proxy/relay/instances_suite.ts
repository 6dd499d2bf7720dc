/**
 * What many proxy instances on one store guarantee together: delivery, order, fencing, single use, limits, mailbox. The
 * tests run on any store: in memory, restricted to what KV Connect allows, or a real KV Connect server.
 */
import { connectRequest } from "../../support/connect_request.ts";
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { IS_LONG } from "../../support/trials.ts";
import { until } from "../../support/until.ts";
import { isProven, largest } from "./proven.ts";
import { PROOF } from "./far_end.ts";
import { connected, kill, type Run, type SharedStore, two } from "./two_instances.ts";
import { codeOf, type TestAgent, World, type WorldOptions } from "../../support/world.ts";

/** Lets an instance no longer read notes and what its links carry. `read` lets it read what has come since. */
function stopReading({ proxy: { deps: { inbox, links } } }: World): { late: (() => void)[]; read: () => void } {
  const { onNote } = inbox, { onMessage } = links, late: (() => void)[] = [];
  inbox.onNote = (...note) => late.push(() => onNote(...note));
  links.onMessage = (...message) => late.push(() => onMessage(...message));
  const read = () => {
    [inbox.onNote, links.onMessage] = [onNote, onMessage];
    for (const one of late) one();
  };
  return { late, read };
}

const numbered = (n: number) => ({ body: JSON.stringify({ n }) });
const numbers = (frames: { payload: string }[]) =>
  frames.map((frame) => (JSON.parse(frame.payload) as { n: number }).n);

/** A message as the mailbox keeps it. */
function messageOf(a: TestAgent, b: TestAgent) {
  const { did: agentDid, ownerDid, currentJti: aitJti } = a.agent;
  const identity = { agentDid, ownerDid, issuer: "https://registry.example.test", aitJti, name: "a" };
  const ids = { requestId: "request-0001", fromAgentDid: agentDid, toAgentDid: b.agent.did };
  return { ...ids, identity, contentType: "application/json", proof: PROOF, payload: "{}" };
}

/** Returns the answer to a request while the clock moves by at most `ms`. */
async function answeredWithin(w: World, sending: Promise<Response>, ms: number): Promise<Response> {
  let answer: Response | undefined;
  void sending.then((response) => answer = response);
  for (let passed = 0; passed < ms && !answer; passed += 500) await w.clock.advance(500);
  assert(answer, `no answer within ${ms} ms`);
  return answer;
}

/**
 * Declares the tests; `where` is the prefix of their names.
 *
 * @param every 3 declares a third of them
 */
export function instancesBehaveAsOne(where: string, open: () => Promise<SharedStore>, every = 1): void {
  let declared = 0;
  const test = (name: string, run: () => Promise<void>) => {
    if (declared++ % every === 0) Deno.test(`${where}: ${name}`, run);
  };
  const twoOf = (run: Run, options?: WorldOptions) => two(open, run, options);

  test("20 of 20 messages posted to one instance reach the socket of another in order, once each", () =>
    twoOf(async (w1, w2, a, b) => {
      const socket = await connected(w2, b);
      for (let n = 0; n < 20; n++) {
        const response = await w1.message(a, b, numbered(n));
        assertEquals([response.status, (await response.json()).delivered], [202, true]);
      }
      assertEquals(numbers(socket.delivered), Array.from({ length: 20 }, (_, n) => n));
    }, { proxy: { agentRequests: 1000 } }));

  test("a message to another instance leaves nothing in memory when its claim is refused", () =>
    twoOf(async (w1, w2, a, b) => {
      await connected(w2, b);
      const headers = { "x-request-id": "request-1" };
      assertEquals((await w1.message(a, b, { headers })).status, 202);
      for (const body of ['{"message":"hi"}', '{"message":"ho"}']) await w1.message(a, b, { headers, body });
      assertEquals(w1.proxy.deps.forwarder.away, 0);
    }));

  test("reply headers reach the socket of another instance, at once and after the mailbox", () =>
    twoOf(async (w1, w2, a, b) => {
      const headers = { [HEADERS.inReplyTo]: "request-0000", [HEADERS.auto]: "1" };
      assertEquals((await w1.message(a, b, { headers: { ...headers, Prefer: "respond-async" } })).status, 202);
      const socket = await connected(w2, b);
      await until(() => socket.delivered.length === 1);
      assertEquals((await w1.message(a, b, { headers })).status, 202);
      assertEquals((await w1.message(a, b)).status, 202);
      assertEquals(socket.delivered.map(({ inReplyTo, auto }) => [inReplyTo, auto]), [
        ["request-0000", true],
        ["request-0000", true],
        [undefined, undefined],
      ]);
    }));

  test("a refusal by the connector, and its silence, return from the other instance", () =>
    twoOf(async (w1, w2, a, b) => {
      const socket = await connected(w2, b, "nack");
      assertEquals((await (await w1.message(a, b)).json()).delivered, false);
      socket.behaviour = "silent";
      const waiting = w1.message(a, b);
      await until(() => socket.delivered.length === 2);
      await w1.clock.advance(11_000);
      assertEquals(await codeOf(await waiting), "PROXY_RELAY_DELIVERY_FAILED");
    }));

  test("a connect at another instance moves presence there and closes the older sockets with 4409", () =>
    twoOf(async (w1, w2, a, b) => {
      const first = await connected(w1, b);
      const second = await connected(w2, b);
      await until(() => first.closed !== null);
      assertEquals(first.closed?.code, 4409);
      assertEquals((await w1.message(a, b)).status, 202);
      assertEquals([first.delivered.length, second.delivered.length], [0, 1]);
    }));

  test("a socket stays open when the note of an earlier move of its agent arrives late", () =>
    twoOf(async (w1, w2, a, b) => {
      await connected(w2, b);
      const { inbox } = w2.proxy.deps, late: (() => void)[] = [];
      const { onNote } = inbox;
      inbox.onNote = (body, bytes) => late.push(() => onNote(body, bytes));
      const moved = await connected(w1, b);
      await until(() => late.length === 1);
      const back = await connected(w2, b);
      await until(() => moved.closed !== null);
      inbox.onNote = onNote;
      late[0]?.();
      assertEquals((await w1.message(a, b)).status, 202);
      await flushTasks();
      assertEquals([moved.closed?.code, back.closed, back.delivered.length], [4409, null, 1]);
    }));

  test("a socket stays open when a message was refused for an earlier move of its agent", () =>
    twoOf(async (w1, w2, a, b) => {
      await connected(w1, b);
      w1.proxy.deps.inbox.onNote = () => {};
      await connected(w2, b);
      const { commits } = w1.proxy.deps, claim = commits.claim.bind(commits);
      let back: Awaited<ReturnType<typeof connected>> | undefined;
      commits.claim = async (updates) => {
        const result = await claim(updates);
        if (!result.taken && result.refused === "moved") back = await connected(w1, b);
        return result;
      };
      const answer = await w1.message(a, b, { headers: { Prefer: "respond-async" } });
      await until(() => back?.delivered.length === 1);
      assertEquals([answer.status, back?.closed], [202, null]);
    }));

  test("the largest message and its proof arrive complete at another instance and from its mailbox, and leave no part", () =>
    twoOf(async (w1, w2, a, b) => {
      const { body, parts } = await largest();
      assertEquals(
        (await w1.message(a, b, { body, ...parts, headers: { Prefer: "respond-async", ...parts.headers } })).status,
        202,
      );
      const socket = await connected(w2, b);
      await until(() => socket.delivered.length === 1);
      const sending = w1.message(a, b, { body });
      assertEquals((await answeredWithin(w1, sending, 5_000)).status, 202);
      assertEquals(await Promise.all(socket.delivered.map((frame) => isProven(a, frame, body))), [true, true]);
      await until(async () => (await Array.fromAsync(w1.kv.list({ prefix: ["proxy", "inbox_part"] }))).length === 0);
    }));

  test("a message that the older instance queued after a move is delivered at the new one", () =>
    twoOf(async (w1, w2, a, b) => {
      const older = await connected(w1, b);
      w1.proxy.deps.inbox.onNote = () => {};
      const newest = await connected(w2, b);
      const { mailbox, commits, forwarder } = w1.proxy.deps, message = messageOf(a, b);
      await commits.claim(mailbox.enqueue(message, message.identity.ownerDid, mailbox.expiry()));
      await forwarder.moved(b.agent.did);
      await until(() => newest.delivered.length === 1);
      assertEquals([older.closed?.code, older.delivered.length], [4409, 0]);
    }));

  test("a socket that opens after its agent has moved on is closed", () =>
    twoOf(async (w1, w2, a, b) => {
      const { connectedAgents, presence } = w1.proxy.deps, { did } = b.agent;
      const ready = connectedAgents.opening(did);
      await presence.claim(did, connectRequest(w1.clock));
      const newest = await connected(w2, b);
      // Attached as the service does it: the claim came before.
      connectedAgents.onAttached = () => {};
      const older = w1.connect(b);
      ready();
      await until(() => older.closed !== null);
      assertEquals((await w1.message(a, b)).status, 202);
      assertEquals([older.closed?.code, newest.closed, newest.delivered.length], [4409, null, 1]);
    }));

  test("an older socket that ends while another one opens leaves the agent here", () =>
    twoOf(async (w1, _w2, a, b) => {
      const { connectedAgents, presence } = w1.proxy.deps, { did } = b.agent;
      const older = await connected(w1, b);
      const ready = connectedAgents.opening(did);
      await presence.claim(did, connectRequest(w1.clock));
      older.link.lost();
      await flushTasks();
      connectedAgents.onAttached = () => {};
      const newest = w1.connect(b);
      ready();
      assertEquals(await w1.proxy.deps.presence.holderOf(did), w1.proxy.deps.presence.instance);
      assertEquals([(await w1.message(a, b)).status, newest.delivered.length], [202, 1]);
    }));

  test("a message to an agent that has moved on within a second is delivered where it is, and by no older socket", () =>
    twoOf(async (w1, w2, a, b) => {
      await using w3 = await World.open({ kv: w1.kv, seed: 3, clock: w1.clock, sharedProcess: true });
      await w3.proxy.start();
      const older = await connected(w2, b);
      for (let n = 0; n < 2; n++) assertEquals((await w1.message(a, b)).status, 202);
      // The second instance does not receive the note that presence has moved.
      w2.proxy.deps.inbox.onNote = (body, bytes) =>
        (body as { kind: string }).kind === "message" && w2.proxy.deps.links.onMessage(body, bytes);
      const newest = await connected(w3, b);
      assert(w1.proxy.deps.presence.hint(b.agent.did)?.value?.instance === w2.proxy.deps.leases.instance);
      const answer = await (await w1.message(a, b)).json();
      assertEquals([answer.delivered, older.delivered.length, newest.delivered.length], [true, 2, 1]);
      await until(() => older.closed !== null);
      assertEquals(older.closed?.code, 4409);
    }, { sharedProcess: true }));

  test("an instance that wrongly assumes it holds the socket sends it nothing", () =>
    twoOf(async (w1, w2, a, b) => {
      const stale = await connected(w1, b);
      // This instance does not receive the note that presence has moved.
      w1.proxy.deps.inbox.onNote = () => {};
      const newest = await connected(w2, b);
      void w1.message(a, b).catch(() => {});
      await until(() => newest.delivered.length === 1);
      assertEquals([stale.delivered.length, newest.delivered.length], [0, 1]);
      assertEquals(stale.closed?.code, 4409);
    }));

  test("agents of a dead instance are offline within 16 s and online when they connect anywhere", () =>
    twoOf(async (w1, w2, a, b) => {
      await connected(w2, b);
      await kill(w2);
      await w1.clock.advance(16_000);
      assertEquals(await codeOf(await w1.message(a, b)), "PROXY_RELAY_CONNECTOR_OFFLINE");
      await connected(w1, b);
      assertEquals((await w1.message(a, b)).status, 202);
    }));

  test("a note that is read late delivers nothing when its message was queued meanwhile", () =>
    twoOf(async (w1, w2, a, b) => {
      const socket = await connected(w2, b);
      // Frozen: it renews no lease and reads no note, and its sockets stay.
      const { late, read } = stopReading(w2);
      const copy = { ...numbered(1), headers: { "x-request-id": "request-0001", Prefer: "respond-async" } };
      const first = w1.message(a, b, copy);
      await until(() => late.length === 1);
      await kill(w2);
      const answer = await answeredWithin(w1, first, 11_000);
      assertEquals([answer.status, (await answer.json()).queued], [202, true]);
      await w1.clock.advance(6_000);
      read();
      await until(() => socket.delivered.length > 0);
      await w1.clock.advance(5_000);
      assertEquals(numbers(socket.delivered), [1]);
    }));

  test("a note that is read after its message was answered with 502 delivers nothing", () =>
    twoOf(async (w1, w2, a, b) => {
      const socket = await connected(w2, b);
      const { late, read } = stopReading(w2);
      const sending = w1.message(a, b);
      await until(() => late.length === 1);
      assertEquals(await codeOf(await answeredWithin(w1, sending, 11_000)), "PROXY_RELAY_DELIVERY_FAILED");
      // The time of the first instance's clock is not known, so the record alone decides.
      w2.proxy.deps.leases.timeAt = () => null;
      read();
      await w1.clock.advance(5_000);
      assertEquals(socket.delivered, []);
    }));

  test("a message that was queued by an instance whose result is lost is not queued again", () =>
    twoOf(async (w1, w2, a, b) => {
      const socket = await connected(w2, b, "silent");
      const { mailbox, commits, mailboxDelivery } = w2.proxy.deps, message = messageOf(a, b);
      await commits.claim(mailbox.enqueue(message, message.identity.ownerDid, mailbox.expiry()));
      mailboxDelivery.deliverTo(b.agent.did);
      await until(() => socket.delivered.length === 1);
      const { inbox } = w1.proxy.deps, { onNote } = inbox;
      inbox.onNote = () => {};
      const copy = { ...numbered(1), headers: { "x-request-id": "request-0002", Prefer: "respond-async" } };
      const answer = await answeredWithin(w1, w1.message(a, b, copy), 11_000);
      inbox.onNote = onNote;
      assertEquals([answer.status, (await answer.json()).queued], [202, true]);
      const { value } = await w1.kv.get<{ total: number }>(KEYS.mailboxState(b.agent.did));
      assertEquals(value?.total, 2);
    }));

  test("a message whose commit was answered too late is sent to no socket", () =>
    twoOf(async (w1, _w2, a, b) => {
      const socket = await connected(w1, b);
      const { commits } = w1.proxy.deps, claim = commits.claim.bind(commits);
      let isFirst = true;
      commits.claim = async (updates, options) => {
        const result = await claim(updates, options);
        // Frozen between the commit and its answer.
        if (isFirst) w1.clock.step(15_000);
        isFirst = false;
        return result;
      };
      assertEquals(await codeOf(await w1.message(a, b)), "PROXY_RELAY_DELIVERY_FAILED");
      assertEquals(socket.delivered, []);
    }));

  test("instances restarted one after the other lose no message and deliver none twice", () =>
    twoOf(async (w1, w2, a, b) => {
      let socket = await connected(w1, b);
      const came: number[] = [];
      const send = async (w: World, n: number) => {
        const answer = await w.message(a, b, { ...numbered(n), headers: { Prefer: "respond-async" } });
        assertEquals(answer.status, 202);
      };
      for (const [gone, other] of [[w1, w2], [w2, w1], [w1, w2], [w2, w1]] as const) {
        const [n, older] = [came.length, socket];
        await send(other, n);
        await until(() => older.delivered.length === 1);
        // It stops a second after it says so: its sockets close while messages arrive at the other instance.
        await gone.proxy.deps.leases.beginLeaving();
        await w1.clock.advance(LIMITS.stopNoticeMs);
        await gone.proxy.stop();
        gone.proxy.closeSockets();
        older.link.lost();
        await send(other, n + 1);
        const newer = await connected(other, b);
        await gone.start();
        await gone.proxy.start();
        await send(gone, n + 2);
        await until(() => newer.delivered.length === 2);
        came.push(...numbers(older.delivered), ...numbers(newer.delivered));
        socket = await connected(other, b);
      }
      assertEquals(came, came.map((_, n) => n));
      assertEquals(came.length, 12);
    }));

  test("a message to an instance that stops is answered and delivered once, whenever it stops", () =>
    twoOf(async (w1, w2, a, b) => {
      let before = await connected(w2, b);
      for (let turns = 0; turns < 16; turns += IS_LONG ? 1 : 3) {
        const sending = w1.message(a, b, { ...numbered(turns), headers: { Prefer: "respond-async" } });
        for (let i = 0; i < turns; i++) await new Promise((resolve) => setTimeout(resolve, 0));
        await w2.proxy.stop();
        w2.proxy.closeSockets();
        before.link.lost();
        assertEquals((await answeredWithin(w1, sending, 3_000)).status, 202);
        const after = await connected(w1, b);
        await until(() => before.delivered.length + after.delivered.length > 0);
        await flushTasks();
        assertEquals(numbers([...before.delivered, ...after.delivered]), [turns], `${turns} turns`);
        await w2.start();
        await w2.proxy.start();
        before = await connected(w2, b);
      }
    }));

  test("a message whose note an instance left unread when it stopped is answered within 3 s", () =>
    twoOf(async (w1, w2, a, b) => {
      await connected(w2, b);
      const { late } = stopReading(w2);
      const sending = w1.message(a, b, { headers: { Prefer: "respond-async" } });
      await until(() => late.length === 1);
      await w2.proxy.stop();
      const answer = await answeredWithin(w1, sending, 3_000);
      assertEquals([answer.status, (await answer.json()).queued], [202, true]);
    }));

  test("a message queued at one instance is delivered by the one where the recipient connects", () =>
    twoOf(async (w1, w2, a, b) => {
      for (let n = 0; n < 3; n++) {
        const response = await w1.message(a, b, { ...numbered(n), headers: { Prefer: "respond-async" } });
        assertEquals((await response.json()).queued, true);
      }
      const socket = await connected(w2, b);
      await until(() => socket.delivered.length === 3);
      assertEquals(numbers(socket.delivered), [0, 1, 2]);
    }));

  test("a message queued while its recipient connects to another instance is delivered", () =>
    twoOf(async (w1, w2, a, b) => {
      for (let n = 0; n < 3; n++) {
        const sending = w1.message(a, b, { ...numbered(n), headers: { Prefer: "respond-async" } });
        const socket = w2.connect(b);
        assertEquals((await sending).status, 202);
        await until(() => socket.delivered.length === 1);
        assertEquals(numbers(socket.delivered), [n]);
        socket.link.lost();
        await flushTasks();
      }
    }));

  test("one of many copies of a signed request sent to two instances is accepted", () =>
    twoOf(async (w1, w2, a, b) => {
      await connected(w1, b);
      const request = await w1.signed(a, { recipient: b.agent.did, body: "{}" });
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, i) => (i % 2 ? w1 : w2).fetch(request.clone())),
      );
      assertEquals(answers.filter((answer) => answer.status === 202).length, 1);
      assertEquals(answers.filter((answer) => answer.status === 401).length, 39);
    }, { proxy: { agentRequests: 1000 } }));

  test("the rate limit of an agent holds over both instances", () =>
    twoOf(async (w1, w2, a, b) => {
      await connected(w1, b);
      const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => (i % 2 ? w1 : w2).message(a, b)));
      assertEquals(answers.filter((answer) => answer.status === 202).length, 18);
      assertEquals(answers.filter((answer) => answer.status === 429).length, 22);
    }, { proxy: { agentRequests: 19 } }));

  test("a pairing confirmed at one instance reaches the initiator's socket at the other", () =>
    twoOf(async (w1, w2, a) => {
      const socket = await connected(w2, a);
      const c = await w1.agent();
      await w1.pair(a, c);
      await until(() => socket.frames.some((frame) => frame.type === "paired"));
      assert(socket.frames.some((frame) => frame.type === "paired" && frame.peerAgentDid === c.agent.did));
    }));

  test("an agent revoked at one instance's registry is closed at the other", () =>
    twoOf(async (w1, w2, _a, b) => {
      const socket = await connected(w2, b);
      await w1.client.deleteAgent(b.owner.apiKey, b.agent.id);
      await until(() => socket.closed !== null);
      assertEquals(socket.closed?.code, 4401);
    }));

  test("a copy of a message that another instance is delivering waits for its answer", () =>
    twoOf(async (w1, w2, a, b) => {
      const socket = await connected(w1, b, "silent");
      const copy = { ...numbered(1), headers: { "x-request-id": "request-0001" } };
      const first = w1.message(a, b, copy);
      await until(() => socket.delivered.length === 1);
      const second = w2.message(a, b, copy);
      await w1.clock.advance(1_000);
      assertEquals(socket.delivered.length, 1);
      socket.ack(socket.delivered[0]?.id ?? "");
      const answer = await (await first).json();
      await w1.clock.advance(300);
      assertEquals(await (await second).json(), answer);
      assertEquals(socket.delivered.length, 1);
    }));

  test("a copy of a message whose instance died is a new attempt once the time limit has passed", () =>
    twoOf(async (w1, w2, a, b) => {
      const lost = await connected(w1, b, "silent");
      const copy = { ...numbered(1), headers: { "x-request-id": "request-0001" } };
      void w1.message(a, b, copy).catch(() => {});
      await until(() => lost.delivered.length === 1);
      const socket = await connected(w2, b);
      const second = w2.message(a, b, copy);
      for (let i = 0; i < 22; i++) await w1.clock.advance(500);
      assertEquals((await second).status, 202);
      assertEquals(socket.delivered.length, 1);
    }));
}
