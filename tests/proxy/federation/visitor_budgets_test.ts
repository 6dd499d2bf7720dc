/** Shows what agents of another registry can use up here, and that it is not what other people of that registry need. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { BAD_PROOFS_MAX } from "../../../proxy/admission/bad_proof_limiter.ts";
import { HELD_PER_SENDER_BYTES } from "../../../proxy/relay/in_flight_budget.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { BODY_WAIT_MS } from "../../../shared/server/http/body_budget.ts";
import { type ForeignAgent, ForeignIssuer } from "../../support/foreign_issuer.ts";
import { answered, outcome } from "../../support/registry_world.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import type { TestAgent, World } from "../../support/world.ts";
import { post } from "../proxy_world.ts";
import { cast, confirm, keyedTicket, keyOf, send, THEIRS } from "./visitor_cast.ts";

Deno.test("the visitors of one owner share a budget, also with many host names", async () => {
  const { w, b, alpha, beta } = await cast({ proxy: { ownerRequests: 10 } });
  await using _ = w;
  const others = await Promise.all(
    ["c", "d"].map((name, i) => ForeignIssuer.open(w.clock, `https://${name}.example`, i)),
  );
  b.answer = (request) => others.find(({ origin }) => request.url.startsWith(origin))?.abroad.send(request) ?? null;
  const guests = [beta, ...await Promise.all(others.map((other) => other.agent()))];
  for (const guest of guests) {
    await answered(await confirm(w, guest, await keyedTicket(w, alpha)), 201);
    // With so few requests, an owner makes one ticket a minute.
    await w.clock.stepWhenIdle(60_000);
  }
  const local = await w.agent();
  await w.pair(local, alpha);
  w.connect(alpha);
  await w.connected();
  await w.clock.stepWhenIdle(60_000);
  const answers: string[] = [];
  for (let n = 0; n < 12; n++) answers.push(await outcome(await send(w, guests[n % 3] as ForeignAgent, alpha)));
  assertEquals(answers, [...Array(10).fill("202"), ...Array(2).fill("429 PROXY_RATE_LIMIT_EXCEEDED")]);
  const refused = await answered<{ error: { message: string } }>(await send(w, beta, alpha), 429);
  assertStringIncludes(refused.error.message, "all visitors of your peer's account");
  assertEquals(await outcome(await w.message(local, alpha)), "202");
});

Deno.test("the visitors of another registry share four budgets, with any number of owners there and here", async () => {
  const { w, b } = await cast({ proxy: { ownerRequests: 10 } });
  await using _ = w;
  const pairs: [ForeignAgent, TestAgent][] = [];
  for (let n = 0; n < 5; n++) {
    const host = await w.agent(), guest = await b.agent(`guest-${n}`);
    await answered(await confirm(w, guest, await keyedTicket(w, host)), 201);
    w.connect(host);
    pairs.push([guest, host]);
  }
  await w.connected();
  await w.clock.stepWhenIdle(60_000);
  const answers: string[] = [];
  for (const [guest, host] of pairs) {
    for (let n = 0; n < 10; n++) answers.push(await outcome(await send(w, guest, host)));
  }
  assertEquals(answers, [...Array(40).fill("202"), ...Array(10).fill("429 PROXY_RATE_LIMIT_EXCEEDED")]);
});

const QUEUED = { Prefer: "respond-async" };

Deno.test("one person of another server leaves requests and mailbox for the others of that server", async () => {
  const { w, b, alpha, beta } = await cast({ proxy: { ownerRequests: 10, mailboxOwnerBytes: 30_000 } });
  await using _ = w;
  const eve = await w.agent(), mallory = await b.agent("mallory");
  await answered(await confirm(w, beta, await keyedTicket(w, alpha)), 201);
  await answered(await confirm(w, mallory, await keyedTicket(w, eve)), 201);
  await w.clock.stepWhenIdle(60_000);
  const queue = async (from: ForeignAgent, to: TestAgent) => {
    const body = JSON.stringify({ message: "x".repeat(10_000) });
    return await outcome(await w.message(from as unknown as TestAgent, to, { body, headers: QUEUED }));
  };
  const answers: string[] = [];
  for (let n = 0; n < 11; n++) answers.push(await queue(mallory, eve));
  const full = "507 PROXY_RELAY_MAILBOX_FULL";
  assertEquals(answers, ["202", "202", ...Array(8).fill(full), "429 PROXY_RATE_LIMIT_EXCEEDED"]);
  assertEquals([await queue(beta, alpha), await queue(beta, alpha), await queue(beta, alpha)], ["202", "202", full]);
});

Deno.test("messages of one person of another server without an acknowledgement stop no message of another one", async () => {
  const { w, b, alpha, beta } = await cast();
  await using _ = w;
  const eve = await w.agent();
  await answered(await confirm(w, beta, await keyedTicket(w, alpha)), 201);
  const socket = w.connect(eve);
  w.connect(alpha);
  await w.connected();
  socket.behaviour = "silent";
  const body = JSON.stringify({ message: "x".repeat(LIMITS.hookBodyBytes - 14) }), waiting: Promise<Response>[] = [];
  for (let n = 0; n < 4; n++) {
    const mallory = await b.agent(`mallory-${n}`) as unknown as TestAgent;
    await answered(await confirm(w, mallory as unknown as ForeignAgent, await keyedTicket(w, eve)), 201);
    for (let sent = 0; sent < HELD_PER_SENDER_BYTES; sent += body.length) {
      waiting.push(w.message(mallory, eve, { body }));
    }
  }
  await until(() => socket.delivered.length === waiting.length);
  assertEquals(await outcome(await send(w, beta, alpha)), "202");
  const own = await w.agent(eve.owner);
  await w.pair(own, eve);
  assertEquals(await outcome(await w.message(own, eve, { body })), "503 PROXY_RELAY_UNAVAILABLE", "they share a room");
  await w.clock.advance(LIMITS.ackTimeoutMs);
  await Promise.all(waiting);
});

/** Asks for the result of a message, `count` times in one request. */
async function ask(w: World, agent: ForeignAgent, to: TestAgent, count: number): Promise<string> {
  const about = { requestId: "request-1", recipientAgentDid: to.agent.did };
  const body = { messages: Array(count).fill(about) };
  return await outcome(await post(w, agent as unknown as TestAgent, "/v1/relay/deliveries", body));
}

Deno.test("a person here who accepts a visitor of another one does not take its budget for questions", async () => {
  const { w, b, beta } = await cast({ proxy: { ownerRequests: 10 } });
  await using _ = w;
  const eve = await w.agent(), victim = await w.agent(), mallory = await b.agent("mallory");
  await answered(await confirm(w, mallory, await keyedTicket(w, eve)), 201);
  await answered(await confirm(w, beta, await keyedTicket(w, victim)), 201);
  await w.clock.stepWhenIdle(60_000);
  const peerKey = await keyOf(beta, "initiator", beta.agent.did);
  const accepted = { peerAgentDid: beta.agent.did, peerProxy: "https://relay.b.example", peerProfile: THEIRS, peerKey };
  await answered(await post(w, eve, "/pair/accept", accepted), 201);
  assertEquals(await outcome(await send(w, beta, victim, QUEUED)), "202");
  assertEquals(await ask(w, mallory, eve, 98), "200");
  for (let n = 0; n < 50; n++) assertEquals(await ask(w, mallory, eve, 1), "200");
  assertEquals(await ask(w, mallory, eve, 1), "429 PROXY_RATE_LIMIT_EXCEEDED");
  assertEquals(await ask(w, beta, victim, 1), "200");
});

Deno.test("a visitor whose pair with a person here has ended uses nothing of that person's other visitors", async () => {
  const { w, b, alpha, beta } = await cast({ proxy: { ownerRequests: 10 } });
  await using _ = w;
  const eve = await w.agent(), mallory = await b.agent("mallory");
  await answered(await confirm(w, mallory, await keyedTicket(w, eve)), 201);
  await answered(await confirm(w, mallory, await keyedTicket(w, alpha)), 201);
  await w.clock.stepWhenIdle(60_000);
  await answered(await confirm(w, beta, await keyedTicket(w, alpha)), 201);
  assertEquals(await outcome(await send(w, mallory, alpha, QUEUED)), "202");
  assertEquals((await post(w, alpha, "/pair/remove", { peerAgentDid: mallory.agent.did })).status, 204);
  await w.clock.stepWhenIdle(60_000);
  for (let n = 0; n < 2; n++) assertEquals(await ask(w, mallory, eve, 99), "200");
  assertEquals(await ask(w, mallory, eve, 1), "429 PROXY_RATE_LIMIT_EXCEEDED");
  assertEquals(await ask(w, beta, alpha, 1), "200");
});

Deno.test("a used ticket uses nothing of its maker's visitors once the pair has ended", async () => {
  const { w, b, alpha, beta } = await cast({ proxy: { ownerRequests: 10 } });
  await using _ = w;
  const mallory = await b.agent("mallory"), ticket = await keyedTicket(w, alpha);
  await answered(await confirm(w, mallory, ticket), 201);
  await answered(await confirm(w, mallory, ticket), 201);
  await w.clock.stepWhenIdle(60_000);
  await answered(await confirm(w, beta, await keyedTicket(w, alpha)), 201);
  assertEquals((await post(w, alpha, "/pair/remove", { peerAgentDid: mallory.agent.did })).status, 204);
  await w.clock.stepWhenIdle(60_000);
  for (let n = 0; n < 10; n++) await confirm(w, mallory, ticket);
  assertEquals(await outcome(await send(w, beta, alpha, QUEUED)), "202");
});

Deno.test("refused requests of one person of another server lock out no agent of another one", async () => {
  const { w, b, alpha, beta } = await cast();
  await using _ = w;
  const eve = await w.agent(), wrong = { [HEADERS.access]: "abc" };
  await answered(await confirm(w, beta, await keyedTicket(w, alpha)), 201);
  w.connect(alpha);
  await w.connected();
  assertEquals(await outcome(await send(w, beta, alpha, wrong)), "401 PROXY_AGENT_ACCESS_INVALID");
  for (let n = 0; n < 5; n++) {
    const mallory = await b.agent(`mallory-${n}`);
    await answered(await confirm(w, mallory, await keyedTicket(w, eve)), 201);
    const answers = Array.from({ length: BAD_PROOFS_MAX }, () => send(w, mallory, eve, wrong));
    for (const answer of await Promise.all(answers)) assertEquals(answer.status, 401);
  }
  assertEquals(await outcome(await send(w, beta, alpha)), "202");
});

Deno.test("visitors who wait for the answer of their registry leave room for the large messages of others", async () => {
  const { w, b, alpha, beta } = await cast();
  await using _ = w;
  const peerKey = await keyOf(beta, "initiator", beta.agent.did);
  const accepted = { peerAgentDid: beta.agent.did, peerProxy: "https://relay.b.example", peerProfile: THEIRS, peerKey };
  await answered(await post(w, alpha, "/pair/accept", accepted), 201);
  const local = await w.agent();
  await w.pair(local, alpha);
  w.connect(alpha);
  await w.connected();
  b.answer = () => new Promise(() => {});
  const body = JSON.stringify({ message: "x".repeat(LIMITS.hookBodyBytes - 14) });
  const large = async (from: TestAgent, address: string) =>
    w.proxy.fetch(await w.signed(from, { recipient: alpha.agent.did, body }), { from: "socket", address }).then(
      outcome,
    );
  const waiting: Promise<string>[] = [];
  for (let n = 0; n < 20; n++) waiting.push(large(beta as unknown as TestAgent, `192.0.2.${n % 2}`));
  await flushTasks();
  const sent = large(local, "192.0.2.3");
  await w.clock.advance(BODY_WAIT_MS);
  assertEquals(await sent, "202");
  await w.clock.advance(5_000);
  assertEquals(await Promise.all(waiting), Array(20).fill("503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE"));
});

Deno.test("a visitor of two people here uses the budget of the one to whom it writes now", async () => {
  const { w, b, alpha, beta } = await cast({ proxy: { ownerRequests: 10 } });
  await using _ = w;
  const eve = await w.agent(), mallory = await b.agent("mallory");
  for (const [guest, host] of [[beta, alpha], [beta, eve], [mallory, eve]] as const) {
    await answered(await confirm(w, guest, await keyedTicket(w, host)), 201);
    await w.clock.stepWhenIdle(60_000);
  }
  for (let n = 0; n < 9; n++) assertEquals(await outcome(await send(w, mallory, eve, QUEUED)), "202");
  assertEquals(await outcome(await send(w, beta, eve, QUEUED)), "202");
  assertEquals(await outcome(await send(w, beta, alpha, QUEUED)), "202", "eve's visitors have used up hers only");
  assertEquals(await outcome(await send(w, beta, eve, QUEUED)), "429 PROXY_RATE_LIMIT_EXCEEDED");
});

Deno.test("registries that one person's tickets name do not keep a visitor of another person waiting", async () => {
  const { w, b, alpha, beta } = await cast();
  await using _ = w;
  const eve = await w.agent(), slow: ForeignAgent[] = [];
  b.answer = ({ url }) => url.includes("slow") ? new Promise(() => {}) : null;
  for (let n = 0; n < 18; n++) {
    slow.push(await (await ForeignIssuer.open(w.clock, `https://slow${n}.example`, n)).agent());
  }
  const waiting: Promise<string>[] = [];
  for (let n = 0; n < slow.length; n += 3) {
    const ticket = await keyedTicket(w, eve);
    waiting.push(...slow.slice(n, n + 3).map((guest) => confirm(w, guest, ticket).then(outcome)));
  }
  await until(() => b.asked.length === 4);
  await flushTasks();
  await answered(await confirm(w, beta, await keyedTicket(w, alpha)), 201);
  assertEquals(b.asked.length, 6, "four of the slow ones, and the two documents of the other one");
  await w.clock.advance(10_000);
  assertEquals(new Set(await Promise.all(waiting)), new Set(["503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE"]));
});

Deno.test("agents of another registry fill half of a mailbox together, with any number of owners", async () => {
  const { w, b, alpha } = await cast({ proxy: { ownerRequests: 10_000 } });
  await using _ = w;
  const local = await w.agent(), refusals: string[] = [];
  await w.pair(local, alpha);
  for (let n = 0; n < 3; n++) {
    const guest = await b.agent(`guest-${n}`);
    await answered(await confirm(w, guest, await keyedTicket(w, alpha)), 201);
    for (let i = 0; i < 99; i++) refusals.push(await outcome(await send(w, guest, alpha, QUEUED)));
  }
  const room = LIMITS.mailboxPerRecipient / 2;
  assertEquals(refusals.lastIndexOf("202"), room - 1);
  assertEquals(new Set(refusals.slice(room)), new Set(["507 PROXY_RELAY_MAILBOX_FULL"]));
  assertEquals(await outcome(await w.message(local, alpha, { headers: QUEUED })), "202");
});
