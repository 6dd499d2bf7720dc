/** Peers: who they are, their names, blocking and the end of a pair. Pairing: make a ticket, and use one. */
import { call, get, post } from "../../../shared/client/local_client.ts";
import { ChangedPeer, type LocalPeer, LocalPeers } from "../../../shared/client/local_shapes.ts";
import { apiErrorOf } from "../../../shared/client/http.ts";
import { type Html, markup } from "../../../shared/page/html.ts";
import type { PageResult } from "../../../shared/page/page_app.ts";
import {
  button,
  card,
  copy,
  empty,
  field,
  head,
  lines,
  link,
  name,
  note,
  pager,
  problem,
  qr,
  table,
  tag,
} from "../../../shared/page/parts.ts";
import { duration, moment } from "../../../shared/page/times.ts";
import { PairConfirmAnswer, PairStartAnswer, PairStatusAnswer } from "../../../shared/protocol/api/pairing.ts";
import { isTicketOf, parseTicket } from "../../../shared/protocol/ticket.ts";
import { presenceText } from "../peer_columns.ts";
import { presentPeers } from "../peers.ts";
import { confirmation, failed, framed, type Input, type LocalRow, type Pages, peerNames, threadPath } from "./frame.ts";

const PEERS = 50;
/** A ticket, with room for what a mail adds around it. */
const PASTED_MAX = 4096;

export const pairingRows: readonly LocalRow[] = [
  { method: "GET", path: "peers", live: true, render: peersPage },
  { method: "GET", path: "peers/:alias", render: (pages, input) => peerPage(pages, input) },
  { method: "POST", path: "peers/:alias/rename", render: rename },
  { method: "POST", path: "peers/:alias/block", render: (pages, input) => block(pages, input, "block") },
  { method: "POST", path: "peers/:alias/unblock", render: (pages, input) => block(pages, input, "unblock") },
  { method: "GET", path: "peers/:alias/remove", render: removePage },
  { method: "POST", path: "peers/:alias/remove", render: remove },
  { method: "GET", path: "pair", live: true, render: (pages, input) => pairPage(pages, input) },
  { method: "POST", path: "pair", render: makeTicket },
  { method: "POST", path: "pair/check", render: checkTicket },
  { method: "POST", path: "pair/confirm", render: confirmTicket },
];

/** Whether a ticket proved the key of a peer, for a person. */
const PROOFS = {
  ticket: "A ticket proved its key: messages are proven end to end and sealed, so no server can read or change them.",
  contact: "A contact: the servers named its key, and they can read what is written. A ticket proves it.",
} as const;

/** What the proxy knows of the peers, by DID; none while it cannot be asked, because the page is of use without it. */
async function listedByDid({ calls }: Pages): Promise<Map<string, LocalPeer>> {
  try {
    const { peers } = await call(calls, LocalPeers, get("/v1/peers"));
    return new Map(peers.map((peer) => [peer.agentDid, peer]));
  } catch {
    return new Map();
  }
}

async function peersPage(pages: Pages, input: Input): Promise<PageResult> {
  const { base, query } = input;
  const now = pages.connector.deps.clock.now();
  const peers = Object.entries(presentPeers(peerNames(pages.connector).peers));
  const from = query.get("after") ?? "";
  const rest = peers.filter(([alias]) => alias > from);
  const shown = rest.slice(0, PEERS);
  const last = shown.at(-1)?.[0];
  const listed = await listedByDid(pages);
  const list = table({
    caption: "Peers",
    id: "peers",
    columns: [{ text: "Peer" }, { text: "Person" }, { text: "Agent" }, { text: "State" }],
    rows: shown.map(([alias, { humanName, agentName, did }]) => ({
      cells: [
        markup`<a class="name" href="${`${base}/peers/${encodeURIComponent(alias)}`}">${name(alias)}</a>`,
        name(humanName),
        name(agentName),
        presenceText(listed.get(did), now),
      ],
    })),
  });
  const action = link(`${base}/pair`, "Pair with an agent");
  const main = peers.length === 0
    ? markup`${head("Peers")}${
      empty("No peers yet", "Only agents whose people have paired them write to each other.", action)
    }`
    : markup`<div class="stack">${head("Peers", null, action)}${list}${
      pager(
        `${shown.length} of ${peers.length}`,
        rest.length > PEERS && last !== undefined ? `?after=${encodeURIComponent(last)}` : null,
      )
    }</div>`;
  return framed(pages, input, { title: "Peers", current: "peers", main, kind: peers.length === 0 ? "none" : "rows" });
}

async function peerPage(
  pages: Pages,
  input: Input,
  refused: { alias: string; problem: Html } | null = null,
): Promise<PageResult> {
  const { base, csrf, params, query } = input;
  const alias = params.alias ?? "";
  const peer = peerNames(pages.connector).peers[alias];
  if (peer === undefined) return { to: "peers" };
  const path = `${base}/peers/${encodeURIComponent(alias)}`;
  const state = peer.gone
    ? null
    : presenceText((await listedByDid(pages)).get(peer.did), pages.connector.deps.clock.now());
  const facts = lines([
    ["Agent", name(peer.agentName)],
    ["Person", name(peer.humanName)],
    ["State", state ?? "not known"],
    ["Proof", peer.how === undefined ? "Its key is not known yet." : PROOFS[peer.how]],
    ["DID", markup`<span class="id">${peer.did}</span>`],
  ]);
  const isNew = query.has("new");
  const heading = isNew
    ? head(markup`Paired with ${name(alias)}`, "Both agents can write to each other from now on.")
    : head(name(alias), peer.gone ? "The pair has ended." : null);
  const nameForm =
    markup`<form method="post" action="${`${path}/rename`}" class="stack tight">${csrf}${refused?.problem}${
      field({
        id: "alias",
        label: "Its name here",
        value: refused?.alias ?? alias,
        maxLength: 32,
        isId: true,
        hint: "Only you see it. The name of before goes on working.",
      })
    }<div><button class="btn quiet">Rename</button></div></form>`;
  const change = peer.blocked ? "unblock" : "block";
  // Messages to a blocked peer are not sent, so a person would write a text that goes nowhere.
  const write = peer.blocked ? null : link(`${base}/${threadPath(alias)}`, markup`Write to ${name(alias)}`);
  const actions = markup`<div class="row">${write}${
    button({ text: peer.blocked ? "Unblock" : "Block", action: `${path}/${change}`, csrf, look: "quiet" })
  }${link(`${path}/remove`, "End the pair…", "quiet")}</div>`;
  const main = markup`${heading}<div class="stack form">${card("The other agent", facts)}${
    peer.gone ? null : markup`${actions}${card("Name", nameForm)}`
  }</div>`;
  return framed(pages, input, { title: alias, current: isNew ? "pair" : "peers", main, hasField: !peer.gone });
}

async function rename(pages: Pages, input: Input): Promise<PageResult> {
  const alias = (input.form.get("alias") ?? "").trim(), peer = input.params.alias ?? "";
  try {
    const renamed = await call(pages.calls, ChangedPeer, post("/v1/peers/rename", { peer, alias }));
    return { to: `peers/${encodeURIComponent(renamed.alias)}` };
  } catch (error) {
    return await peerPage(pages, input, { alias, problem: failed("The name has not changed.", error) });
  }
}

async function block(pages: Pages, input: Input, change: "block" | "unblock"): Promise<PageResult> {
  const alias = input.params.alias ?? "";
  try {
    await call(pages.calls, ChangedPeer, post(`/v1/peers/${change}`, { peer: alias }));
    return { to: `peers/${encodeURIComponent(alias)}` };
  } catch (error) {
    return await peerPage(pages, input, { alias, problem: failed("Nothing has changed.", error) });
  }
}

function removePage(pages: Pages, input: Input): PageResult {
  const alias = input.params.alias ?? "";
  const peer = peerNames(pages.connector).peers[alias];
  if (peer === undefined || peer.gone) return { to: "peers" };
  const path = `peers/${encodeURIComponent(alias)}`;
  const main = confirmation(input, {
    title: markup`End the pair with ${name(alias)}?`,
    text: "Neither agent can write to the other afterwards. To write again, both people pair them again.",
    facts: card("The other agent", lines([["Agent", name(peer.agentName)], ["Person", name(peer.humanName)]])),
    action: `${path}/remove`,
    label: `End the pair with ${alias}`,
    back: path,
  });
  return framed(pages, input, { title: alias, current: "peers", main, hasField: true });
}

async function remove(pages: Pages, input: Input): Promise<PageResult> {
  const alias = input.params.alias ?? "";
  const error = apiErrorOf(await pages.calls.send(post("/v1/pair/remove", { to: alias })));
  if (error === null) return { to: "peers" };
  return framed(pages, input, { title: alias, current: "peers", main: failed("The pair has not ended.", error) });
}

async function pairPage(
  pages: Pages,
  input: Input,
  refused: { text: string; problem: Html } | null = null,
): Promise<PageResult> {
  const { base, csrf } = input;
  const form =
    markup`<form method="post" action="${`${base}/pair/check`}" class="stack tight">${csrf}${refused?.problem}${
      field({
        id: "ticket",
        label: "The ticket that you were given",
        value: refused?.text ?? "",
        rows: 4,
        isId: true,
        placeholder: "svcpair1_…",
        hint: "Line breaks and spaces from a mail do no harm.",
      })
    }<div><button class="btn">Continue</button></div></form>`;
  const main = markup`${
    head("Pair with another agent", "One of the two people makes a ticket, the other one uses it. It works once.")
  }<div class="two"><section class="card stack tight" aria-labelledby="own"><h2 id="own">Your ticket</h2>${await ownTicket(
    pages,
    input,
  )}</section><section class="card" aria-labelledby="theirs"><h2 id="theirs">Use a ticket</h2>${form}</section></div>`;
  return framed(pages, input, { title: "Pair", current: "pair", main, hasField: true });
}

/** The ticket of this page with its state, or the button that makes one. */
async function ownTicket(pages: Pages, { base, csrf }: Input): Promise<Html> {
  const now = pages.connector.deps.clock.now();
  pages.tickets = pages.tickets.filter(({ expiresAt }) => expiresAt > now);
  const newest = pages.tickets.at(-1);
  const make = button({
    text: newest === undefined ? "Make a ticket" : "Make another one",
    action: `${base}/pair`,
    csrf,
    look: newest === undefined ? "" : "quiet",
  });
  if (newest === undefined) {
    return markup`<p class="small soft">Send it to the other person over a channel you trust, or let them scan it.</p>${make}`;
  }
  const { ticket, expiresAt } = newest;
  return markup`<p class="small soft">Send it to the other person over a channel you trust, or let them scan it.</p>${
    copy("own-ticket", ticket, "Copy ticket")
  }<div class="row">${
    qr(ticket, "The ticket as a QR code")
  }<div class="grow" id="ticket-state" data-live role="status">${await ticketState(
    pages,
    base,
    ticket,
    expiresAt,
    now,
  )}</div></div>${make}`;
}

async function ticketState(
  { calls, connector }: Pages,
  base: string,
  ticket: string,
  expiresAt: number,
  now: number,
): Promise<Html> {
  let answer: PairStatusAnswer | null = null;
  try {
    answer = await call(calls, PairStatusAnswer, post("/v1/pair/status", { ticket }));
  } catch {
    // The ticket works on; only its state cannot be read while the server is away.
  }
  if (answer?.responderAgentDid !== undefined) {
    const alias = peerNames(connector).aliasOf(answer.responderAgentDid);
    return markup`<div id="ticket-used">${tag("ok", "Used")}<p class="small soft">${
      name(answer.responderProfile?.agentName ?? alias)
    } of ${name(answer.responderProfile?.humanName ?? "")} is paired now. <a href="${`${base}/peers/${
      encodeURIComponent(alias)
    }?new`}">Look at it</a></p></div>`;
  }
  return markup`<div id="ticket-waits">${
    tag("warn", "Waiting for the other person")
  }<p class="small soft">Works until ${moment(expiresAt, now)}, ${
    duration(expiresAt - now)
  } more. This page shows when it has been used.</p></div>`;
}

async function makeTicket(pages: Pages, input: Input): Promise<PageResult> {
  try {
    const { ticket, expiresAt } = await call(pages.calls, PairStartAnswer, post("/v1/pair/start", {}));
    pages.tickets.push({ ticket, expiresAt: Date.parse(expiresAt) });
    return { to: "pair" };
  } catch (error) {
    return await pairPage(pages, input, { text: "", problem: failed("No ticket was made.", error) });
  }
}

/** Reads a pasted ticket, and asks before it is used: a paste is not a decision. */
async function checkTicket(pages: Pages, input: Input): Promise<PageResult> {
  const pasted = (input.form.get("ticket") ?? "").slice(0, PASTED_MAX);
  const parsed = parseTicket(pasted.replace(/\s+/g, ""));
  const { origin } = pages.connector.options.proxy;
  const again = (title: string, text: string) =>
    pairPage(pages, input, { text: pasted, problem: problem(title, text) });
  if (parsed === null) {
    return await again("This is not a ticket.", "A ticket begins with svcpair1_. Copy the whole of it.");
  }
  if (pages.tickets.some(({ ticket }) => ticket === parsed.ticket)) {
    return await again("This is your own ticket.", "Give it to the other person; they use it.");
  }
  const isElsewhere = !isTicketOf(parsed, origin);
  if (isElsewhere && parsed.pairSecret === null) {
    return await again(`This ticket is of ${parsed.authority}.`, "It is from another server and proves no key.");
  }
  const { name: agent } = pages.connector.options.agent;
  const main = confirmation(input, {
    title: `Pair ${agent} with the agent behind this ticket?`,
    text: "Both agents can write to each other then. Use a ticket only if you know who gave it to you.",
    facts: note(
      "",
      `${isElsewhere ? "This ticket is from another server:" : "The ticket is of"} ${parsed.authority}. ` +
        "It names no agent: you see agent and person afterwards.",
    ),
    action: "pair/confirm",
    fields: { ticket: parsed.ticket },
    label: "Pair",
    look: "",
    back: "pair",
    no: "Do not pair",
  });
  return framed(pages, input, { title: "Pair", current: "pair", main, hasField: true });
}

async function confirmTicket(pages: Pages, input: Input): Promise<PageResult> {
  const ticket = input.form.get("ticket") ?? "";
  try {
    const { initiatorAgentDid } = await call(pages.calls, PairConfirmAnswer, post("/v1/pair/confirm", { ticket }));
    const alias = peerNames(pages.connector).aliasOf(initiatorAgentDid);
    return { to: `peers/${encodeURIComponent(alias)}?new` };
  } catch (error) {
    return await pairPage(pages, input, { text: ticket, problem: failed("Not paired.", error) });
  }
}
