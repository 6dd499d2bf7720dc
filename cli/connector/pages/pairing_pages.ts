/** Pairing: make a ticket, and use one. */
import { ApiError } from "../../../shared/client/errors.ts";
import { call, post } from "../../../shared/client/local_client.ts";
import { type Html, markup } from "../../../shared/page/html.ts";
import type { PageResult } from "../../../shared/page/page_app.ts";
import * as ui from "../../../shared/page/parts.ts";
import { duration, moment } from "../../../shared/page/times.ts";
import { PairConfirmAnswer, PairStartAnswer, PairStatusAnswer } from "../../../shared/protocol/api/pairing.ts";
import { mayPair, PAIRING_SERVERS } from "../../../shared/protocol/origins.ts";
import { isTicketOf, OWN_TICKET, parseTicket, ticketInPaste } from "../../../shared/protocol/ticket.ts";
import { failed, framed, type Input, type LocalRow, nameOf, type Pages, peerPath } from "./frame.ts";

/** Characters of a paste: a ticket, with room for what a mail adds around it. */
const PASTED_MAX = 4096;

export const pairingRows: readonly LocalRow[] = [
  { method: "GET", path: "pair", live: true, render: pairPage },
  { method: "POST", path: "pair", render: makeTicket },
  { method: "POST", path: "pair/check", render: checkTicket },
  { method: "POST", path: "pair/confirm", render: confirmTicket },
];

async function pairPage(
  pages: Pages,
  input: Input,
  refused: { text: string; problem: Html } | null = null,
): Promise<PageResult> {
  const { base, csrf } = input;
  const now = pages.connector.deps.clock.now();
  pages.tickets = pages.tickets.filter(({ expiresAt }) => expiresAt > now);
  const newest = pages.tickets.at(-1);
  const ticket = ui.field({
    id: "ticket",
    label: "The ticket that you were given",
    value: refused?.text ?? "",
    rows: 4,
    isId: true,
    placeholder: "svcpair1_…",
    hint: "Line breaks and spaces from a mail do no harm.",
  });
  const main = markup`${
    ui.head("Pair with another agent", "One of the two people makes a ticket, the other one uses it. It works once.")
  }<div class="two"><section class="card stack tight" aria-labelledby="own"><h2 id="own">Your ticket</h2><p class="small soft">Send it to the other person over a channel you trust, or let them scan it.</p>${await ownTicket(
    pages,
    input,
    newest,
    now,
  )}</section><section class="card" aria-labelledby="theirs"><h2 id="theirs">Use a ticket</h2><form method="post" action="${`${base}/pair/check`}" class="stack tight">${csrf}${refused?.problem}${ticket}<div><button class="btn">Continue</button></div></form></section></div>`;
  // An open page would otherwise show the state of one ticket beside another, or wait for one that is over.
  const kind = String(newest?.ticket);
  return framed(pages, input, { title: "Pair", current: "pair", main, hasField: true, kind });
}

/** The ticket of this page with its state, or the button that makes one. */
async function ownTicket(
  pages: Pages,
  { base, csrf }: Input,
  newest: Pages["tickets"][number] | undefined,
  now: number,
): Promise<Html> {
  const action = `${base}/pair`;
  if (newest === undefined) return ui.button({ text: "Make a ticket", action, csrf });
  const { ticket } = newest;
  return markup`${ui.copy("own-ticket", ticket, "Copy ticket")}<div class="row">${
    ui.qr(ticket, "The ticket as a QR code")
  }<div class="grow" id="ticket-state" data-live role="status">${await ticketState(
    pages,
    base,
    newest,
    now,
  )}</div></div>${ui.button({ text: "Make another one", action, csrf, look: "quiet" })}`;
}

async function ticketState(
  { calls, connector }: Pages,
  base: string,
  { ticket, expiresAt }: Pages["tickets"][number],
  now: number,
): Promise<Html> {
  // Without an answer the ticket is shown as waiting, because a failed request does not end it.
  const answer = await call(calls, PairStatusAnswer, post("/v1/pair/status", { ticket })).catch((error) =>
    error instanceof ApiError && error.code === "PROXY_PAIR_TICKET_NOT_FOUND" ? "over" : null
  );
  if (answer === "over") {
    return markup`<div id="ticket-over">${
      ui.tag("", "Over")
    }<p class="small soft">It was used, and that pair has ended.</p></div>`;
  }
  if (answer?.responderAgentDid !== undefined) {
    const alias = nameOf(connector, answer.responderAgentDid);
    const { agentName = alias, humanName = "" } = answer.responderProfile ?? {};
    // Only the proxy says which agent has used the ticket, and it could have made that up. An agent that is not in the
    // list yet may still prove the ticket.
    const peer = connector.peers.of(answer.responderAgentDid), isProven = peer === null || peer.how === "ticket";
    return markup`<div id="ticket-used">${ui.tag(isProven ? "ok" : "warn", "Used")}<p class="small soft">${
      ui.name(agentName)
    } of ${ui.name(humanName)} is paired now${!isProven && ", but did not prove your ticket"}. <a href="${`${base}/${
      peerPath(alias)
    }?new`}">Look at it</a></p></div>`;
  }
  return markup`<div id="ticket-waits">${
    ui.tag("warn", "Waiting for the other person")
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
    return await pairPage(pages, input, { text: "", problem: failed("No ticket was made.", error, pages) });
  }
}

/** Reads a pasted ticket, and asks before it is used, because a paste is not a decision. */
async function checkTicket(pages: Pages, input: Input): Promise<PageResult> {
  const { base, csrf } = input;
  const { agent, proxy } = pages.connector.options;
  const pasted = (input.form.get("ticket") ?? "").slice(0, PASTED_MAX);
  const found = ticketInPaste(pasted, proxy.origin);
  // Tried again without spaces, because a mail may put some into the ticket.
  const parsed = "ticket" in found ? found.ticket : parseTicket(pasted.replace(/\s+/g, ""));
  const again = (title: string, text: string) =>
    pairPage(pages, input, { text: pasted, problem: ui.problem(title, text) });
  if (parsed === null) return await again("Not paired.", "problem" in found ? found.problem : "");
  if (pages.connector.pairing.isOwn(parsed)) return await again("Not paired.", OWN_TICKET);
  const isElsewhere = !isTicketOf(parsed, proxy.origin);
  if (isElsewhere && !mayPair(proxy.origin, parsed.origin)) {
    return await again(`This ticket is from another server, ${parsed.authority}.`, PAIRING_SERVERS);
  }
  if (isElsewhere && parsed.pairSecret === null) {
    return await again(`This ticket is of ${parsed.authority}.`, "It is from another server and proves no key.");
  }
  const whose = isElsewhere ? "This ticket is from another server:" : "The ticket is of";
  const main = ui.confirmation({
    title: `Pair ${agent.name} with the agent behind this ticket?`,
    text: "Both agents can write to each other then. Use a ticket only if you know who gave it to you.",
    facts: ui.note("", `${whose} ${parsed.authority}. It names no agent: you see agent and person afterwards.`),
    fields: ui.hidden({ ticket: parsed.ticket }),
    label: "Pair",
    no: "Do not pair",
    look: "",
  }, { action: `${base}/pair/confirm`, csrf, back: `${base}/pair` });
  return framed(pages, input, { title: "Pair", current: "pair", main, hasField: true });
}

async function confirmTicket(pages: Pages, input: Input): Promise<PageResult> {
  const ticket = input.form.get("ticket") ?? "";
  try {
    const { initiatorAgentDid } = await call(pages.calls, PairConfirmAnswer, post("/v1/pair/confirm", { ticket }));
    return { to: `${peerPath(nameOf(pages.connector, initiatorAgentDid))}?new` };
  } catch (error) {
    return await pairPage(pages, input, { text: ticket, problem: failed("Not paired.", error, pages) });
  }
}
