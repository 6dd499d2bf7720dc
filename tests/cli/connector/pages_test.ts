/** Pages of a connector in the test's process: what a pasted ticket may be, the agent that replaces another, a full disk. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { ownCalls } from "../../../cli/connector/local_api/local_api.ts";
import { LocalPages } from "../../../cli/connector/pages/local_pages.ts";
import type { LocalCalls } from "../../../shared/client/local_client.ts";
import { until } from "../../support/until.ts";
import { World } from "../../support/world.ts";
import { Bench } from "./bench.ts";
import { asker, post } from "./local_api/local_caller.ts";
import { two } from "./two_connectors.ts";

const HOST = "127.0.0.1:4321", ORIGIN = `http://${HOST}`;

/** A browser in which the page of a connector is open. */
async function browser({ connector }: Bench, change: (calls: LocalCalls) => LocalCalls = (calls) => calls) {
  const calls = change(ownCalls({ connector, token: "t", port: 4321, a2aPeers: () => [], page: null }));
  const pages = new LocalPages(connector, calls, 4321, () => {});
  const ask = async (url: string, headers: Record<string, string>, body?: string) => {
    const method = body === undefined ? "GET" : "POST";
    const request = new Request(url, {
      method,
      headers: { Host: HOST, Origin: ORIGIN, ...headers },
      body: body ?? null,
    });
    const answer = await pages.answer(request);
    assert(answer !== null, url);
    return answer;
  };
  const opened = await ask((await pages.open())?.url ?? "", {}, "");
  const Cookie = opened.headers.get("set-cookie")?.split(";")[0] ?? "";
  const base = opened.headers.get("location")?.replace(/\/inbox$/, "") ?? "";
  const get = async (path: string) => await (await ask(`${ORIGIN}${base}/${path}`, { Cookie })).text();
  const [, csrf = ""] = /name="csrf" value="([^"]+)"/.exec(await get("pair")) ?? [];
  const form = { Cookie, "Content-Type": "application/x-www-form-urlencoded" };
  return {
    get,
    submit: async (path: string, fields: Record<string, string> = {}) => {
      const answer = await ask(`${ORIGIN}${base}/${path}`, form, String(new URLSearchParams({ csrf, ...fields })));
      return answer.headers.get("location")?.slice(base.length + 1) ?? await answer.text();
    },
  };
}

async function bench(world: World, name: string, owner?: Parameters<World["agent"]>[0]) {
  const agent = await world.agent(owner, name);
  return { agent, bench: await Bench.open(world, agent, { platform: "inbox" }) };
}

Deno.test("a ticket is read from the mail around it, also broken into lines", async () => {
  await using world = await World.open();
  const { other, ticketOf } = await two(world);
  const ticket = await ticketOf(), page = await browser(other);
  const whole = `name="ticket" value="${ticket}"`;
  const pastes = [
    ticket,
    ` \n${ticket.slice(0, 40)}\n${ticket.slice(40)} `,
    `${ticket.slice(0, 40)} ${ticket.slice(40)}`,
    `Hi Bob,\n\nhere is my ticket: ${ticket}.\n\nAnn`,
    `> ${ticket.slice(0, 40)}\r\n> ${ticket.slice(40)}`,
  ];
  for (const paste of pastes) assertStringIncludes(await page.submit("pair/check", { ticket: paste }), whole, paste);
  for (
    const [paste, why] of [
      ["not a ticket", "No pairing ticket in the pasted text."],
      [ticket.slice(0, 40), "This ticket was cut off: copy it whole."],
      // A program on this machine has made it, and not this page.
      [(await asker(other)("/v1/pair/start", post({}))).body.ticket, "This is your own ticket."],
      ["svcpair1_AAECAwQFBgcICQoLDA0ODw.BwcHBwcHBwcHBwcHBwcHBw.[::1]:8787", "Agents of two servers pair only if"],
    ] as const
  ) assertStringIncludes(await page.submit("pair/check", { ticket: paste }), why);
});

Deno.test("the page of the status shows short times, each with the whole one in its title", async () => {
  await using world = await World.open();
  const page = await browser((await two(world)).other);
  const status = await page.get("status");
  assertMatch(status, /since <time datetime="([^"]+)" title="\1">\d\d:\d\d UTC<\/time> \(/);
  assertEquals(/\d{4}-\d\d-\d\dT/.exec(status.replaceAll(/<[^>]*>/g, "")), null);
});

Deno.test("the page asks whether a new peer is the new agent of one that was there", async () => {
  await using world = await World.open();
  const [one, old] = [await bench(world, "alpha"), await bench(world, "beta")];
  const pair = async (other: Bench) => {
    const { ticket } = (await asker(one.bench)("/v1/pair/start", post({}))).body;
    assertEquals((await asker(other)("/v1/pair/confirm", post({ ticket }))).status, 201);
  };
  await pair(old.bench);
  await until(() => "beta" in one.bench.connector.peers.all);
  const page = await browser(one.bench);
  assert(!(await page.get("peers/beta?new")).includes("replace"));
  for (const [change, text] of [["block", "until you unblock it"], ["unblock", "Both agents can write"]]) {
    await page.submit(`peers/beta/${change}`);
    assertStringIncludes(await page.get("peers/beta?new"), text ?? "");
  }
  assertEquals(await page.submit("peers/beta/replace"), "peers/beta");
  const fresh = await bench(world, "beta", old.agent.owner);
  await pair(fresh.bench);
  await until(() => "beta-2" in one.bench.connector.peers.all);
  assertStringIncludes(await page.get("peers/beta-2?new"), "/peers/beta-2/replace");
  assertStringIncludes(await page.get("peers/beta-2/replace"), "new agent of");
  assertEquals(await page.submit("peers/beta-2/replace"), "peers/beta");
  const { beta, "beta-old": before } = one.bench.connector.peers.all;
  assertEquals([beta?.did, before?.removed], [fresh.agent.agent.did, true]);
});

Deno.test("the page says of a ticket's agent when it did not prove the ticket", async () => {
  await using world = await World.open();
  const one = await bench(world, "alpha"), page = await browser(one.bench);
  for (const isProving of [true, false]) {
    await page.submit("pair");
    const [, ticket = ""] = /id="own-ticket">([^<]+)</.exec(await page.get("pair")) ?? [];
    const name = isProving ? "beta" : "gamma";
    if (isProving) await asker((await bench(world, name)).bench)("/v1/pair/confirm", post({ ticket }));
    // A program without a connector, or a relay that took the proof away.
    else await (await world.agent(undefined, name)).client.pairConfirm(ticket, { agentName: name, humanName: "Gus" });
    await until(() => Object.values(one.bench.connector.peers.all).some(({ agentName }) => agentName === name));
    assertEquals((await page.get("pair")).includes("did not prove"), !isProving);
  }
  await asker(one.bench)("/v1/pair/remove", post({ to: "contact-gamma" }));
  assertStringIncludes(await page.get("pair"), "that pair has ended");
});

Deno.test("a text that is changed after its answer was lost is another message, and the same text is the same one", async () => {
  await using world = await World.open();
  const { one, ticketOf, confirm, pinned } = await two(world);
  await confirm(await ticketOf());
  await pinned();
  const ids: string[] = [];
  const lost = (calls: LocalCalls): LocalCalls => ({
    ...calls,
    send: (request) => {
      ids.push(JSON.parse(request.body ?? "{}").requestId);
      return Promise.reject(new Error("the answer was lost"));
    },
  });
  const page = await browser(one, lost);
  for (const [path, to] of [["inbox/beta", {}], ["send", { to: "beta" }]] as const) {
    let html = await page.get("send");
    for (const text of ["first", "first", "changed", "changed"]) {
      const hidden = [...html.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g)]
        .map(([, name = "", value = ""]) => [name, value]);
      html = await page.submit(path, { ...to, ...Object.fromEntries(hidden), text });
    }
    const [first, same, changed, again] = ids.splice(0);
    assertEquals([same, again], [first, changed]);
    assert(changed !== first, path);
  }
});

Deno.test("the list of sent messages says which of them were answered, as svc sent does", async () => {
  await using world = await World.open();
  const { one, other, ticketOf, confirm, pinned } = await two(world);
  await confirm(await ticketOf());
  await pinned();
  const page = await browser(one);
  assertEquals((await asker(one)("/v1/outbound", post({ to: "beta", text: "Which port?" }))).status, 202);
  assert(!(await page.get("sent")).includes("answered"));
  const { messages: [question] } = (await asker(other)("/v1/inbox")).body;
  assertEquals((await asker(other)("/v1/outbound", post({ replyTo: question.id, text: "8443" }))).status, 202);
  assertStringIncludes(await page.get("sent"), "read, answered");
});

Deno.test("a text for a peer that is gone or blocked meanwhile stays, is not sent, and names no other peer", async () => {
  await using world = await World.open();
  const { one, ticketOf, confirm, pinned } = await two(world);
  await confirm(await ticketOf());
  await pinned();
  const page = await browser(one), ask = asker(one), to = "beta", text = "only for beta";
  const refusals = async () => {
    for (const path of ["send", "inbox/beta"]) {
      const shown = await page.submit(path, { to, text, keep: "on" });
      for (const part of ["Not sent.", `${text}</textarea>`]) assertStringIncludes(shown, part, path);
      if (path === "send") assertStringIncludes(shown, '<option value="beta" selected>');
    }
  };
  await ask("/v1/peers/block", post({ peer: to }));
  await refusals();
  assertStringIncludes(await page.submit("send", { to, text }), "--agent alpha ends that.");
  await ask("/v1/peers/unblock", post({ peer: to }));
  await ask("/v1/pair/remove", post({ to }));
  await refusals();
});

Deno.test("a form that fails says why and what to do", async () => {
  await using world = await World.open();
  const { bench: one } = await bench(world, "alpha");
  const error = { code: "CONNECTOR_DISK_FULL", message: "The disk is full" };
  const answer = { status: 507, headers: new Headers(), text: JSON.stringify({ error }) };
  const page = await browser(one, (calls) => ({ ...calls, send: () => Promise.resolve(answer) }));
  const shown = await page.submit("inbox/beta/read", { ids: "1" });
  for (const text of ["The disk is full", "CONNECTOR_DISK_FULL", "Go to the first page"]) {
    assertStringIncludes(shown, text);
  }
});

Deno.test("the page of dead letters says when it does not show all, and deletes as many as it has asked about", async () => {
  await using world = await World.open();
  const { agent, bench: one } = await bench(world, "alpha"), sender = await world.agent(undefined, "beta");
  await world.pair(sender, agent);
  for (let i = 0; i < 51; i++) assertEquals((await (await world.message(sender, agent)).json()).delivered, true);
  world.clock.step(8 * 86_400_000);
  one.connector.store.deleteExpired(world.clock.now());
  const fresh = await browser(one);
  assertStringIncludes(await fresh.get("dead"), "The newest 50 of 51");
  one.connector.store.received.purge([1]);
  assert(!(await fresh.get("dead")).includes("The newest"));
  // One more came after the question was shown.
  assertStringIncludes(await fresh.submit("dead/delete", { count: "49" }), "Delete all 50 dead letters?");
  assertEquals(one.connector.status().deadLetters, 50);
  assertEquals([await fresh.submit("dead/delete", { count: "50" }), one.connector.status().deadLetters], ["dead", 0]);
});
