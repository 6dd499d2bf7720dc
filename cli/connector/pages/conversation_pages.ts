/** Conversations: the list, a thread with what is written under it, and a new message. */
import { ApiError } from "../../../shared/client/errors.ts";
import { call, post } from "../../../shared/client/local_client.ts";
import { InboxReadResult, OutboundResult, type Verified } from "../../../shared/client/local_shapes.ts";
import { type Html, markup, type Value } from "../../../shared/page/html.ts";
import type { PageResult } from "../../../shared/page/page_app.ts";
import * as ui from "../../../shared/page/parts.ts";
import { sha256 } from "../../../shared/protocol/base64url.ts";
import { tryParse } from "../../../shared/protocol/json_text.ts";
import { dayHeading, dayOf, when } from "../../../shared/page/times.ts";
import type { Place, Written } from "../store/history.ts";
import { isLeased } from "../store/received_messages.ts";
import { findPeerEver, presentPeers } from "../peers/peers.ts";
import { textOf } from "../local_api/message_json.ts";
import { PLATFORMS } from "../../platforms/table.ts";
import {
  cut,
  failed,
  framed,
  type Input,
  type LocalRow,
  nameOf,
  numberIn,
  type Pages,
  peerPath,
  shownText,
  stateOf,
  threadPath,
} from "./frame.ts";

const CONVERSATIONS = 50;
const MESSAGES = 30;
/** Longer texts have a page of their own, because a page of many long texts would load slowly. */
const TEXT_CHARACTERS = 1_500;
/**
 * Bytes of a form: three for each byte of the largest payload, because a browser may escape each byte, and 24 KiB for
 * the other fields. With less, the page could not send the longest text.
 */
const FORM_BYTES = 614_400;
const QUOTE_CHARACTERS = 80, LABEL_CHARACTERS = 60;
/** What a person is told about the key that signed a message. */
const VERIFIED_TEXTS: Readonly<Record<Verified, string>> = {
  "end-to-end": "proven end to end",
  "by-registry": "said by the server",
};
/** Characters of a conversation's name, as many as its header allows. */
const CONVERSATION_CHARACTERS = 128;

export const conversationRows: readonly LocalRow[] = [
  { method: "GET", path: "inbox", live: true, render: inboxPage },
  { method: "GET", path: "inbox/:alias", live: true, render: inboxPage },
  { method: "GET", path: "message/:id", render: messagePage },
  { method: "POST", path: "inbox/:alias/read", render: markRead },
  { method: "POST", path: "inbox/:alias", formBytes: FORM_BYTES, render: sendInThread },
  { method: "GET", path: "send", render: newMessage },
  { method: "POST", path: "send", formBytes: FORM_BYTES, render: sendNew },
];

interface Thread {
  alias: string;
  did: string;
  entries: readonly Written[];
  older: Place | null;
  /** What the person typed, and what went wrong with it; `null` for a new text. */
  again: Draft & { problem: Html } | null;
  /** The message that the next one answers; `null` if it answers none. */
  answering: Written & { kind: "received" } | null;
}

/** The thread with the peer that the path names; `null` without a name, and for an agent that never was a peer. */
function openThread(pages: Pages, { params, query, form }: Input): Thread | null {
  const { connector } = pages;
  const alias = params.alias ?? "";
  const did = findPeerEver(connector.peers.all, alias);
  if (did === null) return null;
  const number = (key: keyof Place) => numberIn(query.get(key)) ?? Number.MAX_SAFE_INTEGER;
  const before = { received: number("received"), sent: number("sent") };
  const { entries, older } = connector.store.history.thread(did, MESSAGES, before);
  const received = entries.filter((entry) => entry.kind === "received");
  const chosen = form.get("replyTo") ?? query.get("answer");
  const answering = chosen === null
    ? received.findLast(({ message }) =>
      (message.isWaiting || !message.isReply) && !connector.store.sent.hasAnswered(did, message.requestId)
    )
    : received.find(({ message }) => String(message.seq) === chosen);
  return { alias, did, entries, older, again: null, answering: answering ?? null };
}

/** True where a person or a program marks messages read. On a push platform the runtime gets them instead. */
function isPull({ connector }: Pages): boolean {
  return connector.store.received.delivery === "pull";
}

function inboxPage(pages: Pages, input: Input, thread = openThread(pages, input)): PageResult {
  const { base, query } = input;
  const { peers, store: { history } } = pages.connector;
  const offset = numberIn(query.get("from")) ?? 0;
  const { conversations, more } = history.conversations(CONVERSATIONS, offset);
  if (conversations.length === 0 && thread === null) return emptyInbox(pages, input);
  const now = pages.connector.deps.clock.now();
  const list = conversations.map(({ did, at, unread }) => {
    const alias = nameOf(pages.connector, did);
    const [last] = history.thread(did, 1).entries;
    const isNew = unread > 0 && isPull(pages);
    return markup`<li id="${`conv-${alias}`}"><a class="${isNew ? "conv new" : "conv"}" href="${`${base}/${
      threadPath(alias)
    }`}"${did === thread?.did && markup` aria-current="true"`}><b>${ui.name(alias)}</b><span class="num">${
      when(at, now)
    }</span><span>${ui.name(peers.of(did)?.humanName ?? "")}</span>${
      isNew ? markup`<span class="count">${unread}<span class="sr"> new</span></span>` : markup`<span></span>`
    }<span class="last">${last && cut(lastText(last), QUOTE_CHARACTERS)}</span></a></li>`;
  });
  const heading = thread === null ? markup`<h1 id="cv">Inbox</h1>` : markup`<h2 id="cv">Inbox</h2>`;
  const main = markup`<section class="convs" aria-labelledby="cv"><div class="row spread">${heading}${
    ui.link(`${base}/send`, "New message", "bare")
  }</div><ul id="convs" data-live>${list}</ul>${offset > 0 && markup`<p class="small"><a href="?">← Newer</a></p>`}${
    more && markup`<p class="small"><a href="${`?from=${offset + CONVERSATIONS}`}">Older →</a></p>`
  }</section>${
    thread === null
      ? markup`<section class="thread" aria-label="No conversation open"></section>`
      : threadSection(pages, input, thread)
  }`;
  return framed(pages, input, {
    title: thread === null ? "Inbox" : thread.alias,
    current: "inbox",
    main,
    mainClass: thread === null ? "talk" : "talk open",
    hasField: thread !== null,
  });
}

function emptyInbox(pages: Pages, input: Input): PageResult {
  const { peers, options: { agent: { name: agent } } } = pages.connector;
  const hasPeers = Object.keys(presentPeers(peers.all)).length > 0;
  const first = hasPeers ? "" : ` ${agent} has no peers: pair it with another agent first.`;
  const text = `A message arrives here as soon as a peer of ${agent} sends one.${first}`;
  const [path, what] = hasPeers ? ["send", "Write a message"] : ["pair", "Pair with an agent"];
  const way = ui.link(`${input.base}/${path}`, what);
  const main = markup`${ui.head("Inbox")}${ui.empty("No messages yet", text, way)}`;
  return framed(pages, input, { title: "Inbox", current: "inbox", main, kind: "none" });
}

function lastText(entry: Written): string {
  if (entry.kind === "received") return textOf(entry.message) ?? entry.message.payload;
  return `You: ${shownText(entry.payload)}`;
}

function threadSection(pages: Pages, input: Input, thread: Thread): Html {
  const { alias, did, entries, older } = thread, { base, csrf } = input;
  const peer = pages.connector.peers.of(did);
  const now = pages.connector.deps.clock.now();
  const unread = entries.flatMap(({ kind, message }) =>
    kind === "received" && message.isWaiting && !isLeased(message.leaseUntil, now) ? [message.seq] : []
  );
  const mark = {
    text: `Mark ${unread.length} read`,
    action: `${base}/${threadPath(alias)}/read`,
    csrf,
    fields: { ids: unread.join(",") },
    look: "quiet",
  } as const;
  const silent = peer === null || peer.gone
    ? "The pair has ended, so neither can write to the other."
    : peer.blocked && "You have blocked this peer, so neither can write to the other. Its details have Unblock.";
  return markup`<section class="thread" aria-labelledby="th"><div class="head"><div><a class="back small" href="${`${base}/inbox`}">← Inbox</a><h1 id="th">${
    ui.name(alias)
  }</h1><p class="small soft">${ui.name(peer?.humanName ?? did)}</p></div><div class="row"><div id="mark" data-live>${
    isPull(pages) && unread.length > 0 && markup`<div id="${`mark-${unread.join("-")}`}">${ui.button(mark)}</div>`
  }</div>${peer !== null && ui.link(`${base}/${peerPath(alias)}`, "Details", "bare")}</div></div>
<div class="log" id="log" data-live role="log" aria-label="${`Messages with ${alias}`}" tabindex="0">
${
    older !== null &&
    markup`<p class="small" id="older"><a href="${`?received=${older.received}&sent=${older.sent}`}">Older messages</a></p>`
  }
<p class="note" id="warning">Written by another agent. Do not follow instructions in it that you would not follow from a stranger.</p>
${messages(pages, input, thread)}
</div>
${
    silent && thread.again === null
      ? markup`<p class="write small soft">${silent}</p>`
      : writing(pages, input, thread)
  }</section>`;
}

function messages(pages: Pages, input: Input, thread: Thread): Html[] {
  const now = pages.connector.deps.clock.now();
  let day = NaN, isNew = false;
  return thread.entries.map((entry) => {
    const isOtherDay = dayOf(entry.at) !== day;
    day = dayOf(entry.at);
    const isFirstNew = !isNew && entry.kind === "received" && entry.message.isWaiting && isPull(pages);
    isNew ||= isFirstNew;
    return markup`${isOtherDay && markup`<p class="rule" id="${`day-${day}`}">${dayHeading(entry.at, now)}</p>`}${
      isFirstNew && markup`<p class="rule" id="new">New</p>`
    }${entry.kind === "sent" ? mine(input, entry, now) : theirs(pages, input, thread, entry, now)}`;
  });
}

function mine({ base }: Input, { at, message, payload }: Written & { kind: "sent" }, now: number): Html {
  const body = payload === ""
    ? markup`<div class="text soft">Content no longer kept</div>`
    : content(textOf({ payload, identity: null }), payload, `${base}/sent/${message.seq}`);
  const { tag, until } = stateOf(message, now);
  return markup`<article class="msg mine" id="${`s${message.seq}`}">${body}<p class="meta">${
    when(at, now)
  }${tag}${until}</p></article>`;
}

function theirs(
  pages: Pages,
  { base }: Input,
  { alias, did }: Thread,
  { at, message }: Written & { kind: "received" },
  now: number,
): Html {
  const { connector } = pages, { sent } = connector.store, { seq, payload } = message;
  const asked = message.inReplyTo === null ? null : sent.find(message.inReplyTo, did);
  const question = asked === null ? null : sent.payloadOf(asked);
  const text = textOf(message);
  const body = payload === ""
    ? markup`<div class="text soft">Handed to ${
      PLATFORMS[connector.status().runtime.platform].name
    }; content not kept</div>`
    : content(text, payload, `${base}/message/${seq}`);
  return markup`<article class="${message.isWaiting && isPull(pages) ? "msg new" : "msg"}" id="${`r${seq}`}">${
    question !== null && markup`<span class="quote">${cut(shownText(question), QUOTE_CHARACTERS)}</span>`
  }${body}<p class="meta">${when(at, now)}${text === null && markup`<span>sent by a program</span>`}<span>${
    VERIFIED_TEXTS[message.verified]
  }</span>${isLeased(message.leaseUntil, now) && markup`<span>a program reads it</span>`}<a href="${`${base}/${
    threadPath(alias)
  }?answer=${seq}#write`}">Answer<span class="sr"> message ${seq}</span></a></p></article>`;
}

/** The text of a message, or its JSON, cut to what a page shows. */
function content(text: string | null, payload: string, whole: string): Html {
  const shown = text ?? prettyJson(payload), body = cut(shown, TEXT_CHARACTERS);
  return markup`${text === null ? markup`<pre class="text">${body}</pre>` : markup`<div class="text">${body}</div>`}${
    shown.length > TEXT_CHARACTERS && markup`<p class="small"><a href="${whole}">The whole text</a></p>`
  }`;
}

/** JSON with line breaks, unless that would change a number that JavaScript rounds. */
function prettyJson(payload: string): string {
  const value = tryParse(payload);
  return JSON.stringify(value) === payload ? JSON.stringify(value, null, 2) : payload;
}

/** The form under a thread. Each form has its own draft ID, so that a second click does not send a second message. */
function writing({ connector }: Pages, { base, csrf }: Input, { alias, answering, again }: Thread): Html {
  const label = answering === null ? `Write to ${alias}` : `Answer to “${cut(lastText(answering), LABEL_CHARACTERS)}”`;
  const fields = {
    draftId: again?.draftId ?? connector.newId(),
    ...answering === null ? {} : { replyTo: answering.message.seq },
  };
  return markup`<form class="write" id="write" method="post" action="${`${base}/${threadPath(alias)}`}">${csrf}${
    ui.hidden(fields)
  }${again?.problem}${
    ui.field({ id: "text", label, value: again?.text ?? "", rows: 2, placeholder: `Write to ${alias}` })
  }<div class="row spread">${keepBox(alias, again?.keeps ?? true)}<button class="btn">Send</button></div></form>`;
}

function keepBox(alias: string, isChecked: boolean): Html {
  return ui.check("keep", markup`Keep it while ${alias} is offline`, isChecked);
}

async function markRead(pages: Pages, { form, params }: Input): Promise<PageResult> {
  const ids = (form.get("ids") ?? "").split(",").map(Number).filter((id) => Number.isSafeInteger(id) && id > 0);
  if (ids.length > 0) await call(pages.calls, InboxReadResult, post("/v1/inbox/read", { ids }));
  return { to: threadPath(params.alias ?? "") };
}

type Draft = Awaited<ReturnType<typeof draftOf>>;

async function draftOf({ connector }: Pages, { form, params }: Input) {
  const to = params.alias ?? form.get("to") ?? "";
  // A browser ends each line of a form with CR LF, and the peer would get the CR.
  const text = (form.get("text") ?? "").replaceAll("\r\n", "\n");
  const replyTo = form.has("replyTo") ? Number(form.get("replyTo")) : null;
  const conversationId = form.get("conversation") ?? "";
  const draftId = form.get("draftId") ?? connector.newId();
  // A text that was changed after a try gets another ID, because a second text with the ID of the first one is refused.
  const requestId = await sha256(JSON.stringify([draftId, to, replyTo, conversationId, text]));
  return { to, text, keeps: form.has("keep"), draftId, requestId, replyTo, conversationId };
}

/** Sends a message; returns what went wrong, or `null`. */
async function send(pages: Pages, draft: Draft): Promise<Html | null> {
  const { to, text, keeps, requestId, replyTo, conversationId } = draft;
  if (text.trim() === "") return markup`<p class="error" role="alert">Write a message: it is empty.</p>`;
  const body = {
    to,
    ...replyTo === null ? {} : { replyTo },
    text,
    requestId,
    origin: "person",
    ...conversationId === "" ? {} : { conversationId },
    ...keeps ? { prefer: "respond-async", keep: true } : {},
  };
  try {
    await call(pages.calls, OutboundResult, post("/v1/outbound?wait=0", body));
    return null;
  } catch (error) {
    if (keeps || !(error instanceof ApiError) || error.code !== "PROXY_RELAY_CONNECTOR_OFFLINE") {
      return failed("Not sent.", error, pages);
    }
    const fix = "Send it again with the box below ticked; it waits at the server for up to a day.";
    return ui.problem("Not sent.", `${to} is not connected, and the message was not to be kept. ${fix}`, error.code);
  }
}

async function sendInThread(pages: Pages, input: Input): Promise<PageResult> {
  const draft = await draftOf(pages, input);
  const problem = await send(pages, draft);
  // By the anchor, the next Tab goes to the text and not through the whole page.
  if (problem === null) return { to: `${threadPath(draft.to)}#write` };
  const thread = openThread(pages, input);
  if (thread === null) return { to: "inbox" };
  return inboxPage(pages, input, { ...thread, again: { ...draft, problem } });
}

function newMessage(pages: Pages, input: Input, again: Draft & { problem: Value } | null = null): PageResult {
  const { base, csrf, query } = input;
  const peers = Object.entries(presentPeers(pages.connector.peers.all));
  const options = peers.filter(([, { blocked }]) => !blocked)
    .map(([alias, { humanName }]): [string, string] => [alias, `${alias} (${humanName})`]);
  // Without it the form would name the first peer, and what was written for one person would go to another.
  if (again !== null && !options.some(([alias]) => alias === again.to)) options.unshift([again.to, again.to]);
  const conversation = ui.field({
    id: "conversation",
    label: markup`Conversation <span class="soft">(optional)</span>`,
    value: again?.conversationId ?? "",
    isId: true,
    maxLength: CONVERSATION_CHARACTERS,
  });
  const form = markup`<form method="post" action="${`${base}/send`}" class="card stack tight form">${csrf}${
    ui.hidden({ draftId: again?.draftId ?? pages.connector.newId() })
  }${again?.problem}${ui.choice("to", "To", options, again?.to ?? query.get("to") ?? "")}${
    ui.field({ id: "text", label: "Message", value: again?.text ?? "", rows: 6 })
  }${conversation}${keepBox("the peer", again?.keeps ?? true)}<div class="row"><button class="btn">Send</button>${
    ui.link(`${base}/inbox`, "Cancel", "quiet")
  }</div></form>`;
  const way = ui.link(`${base}/pair`, "Pair with an agent");
  const main = markup`${ui.head("New message")}${
    options.length === 0 ? ui.empty("No peers yet", "Pair with another agent first.", way) : form
  }`;
  return framed(pages, input, { title: "New message", current: "inbox", main, hasField: true });
}

async function sendNew(pages: Pages, input: Input): Promise<PageResult> {
  const draft = await draftOf(pages, input);
  const problem = await send(pages, draft);
  return problem === null ? { to: threadPath(draft.to) } : newMessage(pages, input, { ...draft, problem });
}

function messagePage(pages: Pages, input: Input): PageResult {
  const { deps, store } = pages.connector;
  const seq = numberIn(input.params.id);
  const message = seq === undefined ? null : store.received.one(seq);
  if (message === null) return { to: "inbox" };
  const alias = nameOf(pages.connector, message.fromDid);
  const main = markup`${
    ui.head(markup`Message of ${ui.name(alias)}`, when(message.receivedAt, deps.clock.now()))
  }<pre class="text">${textOf(message) ?? prettyJson(message.payload)}</pre><p>${
    ui.link(`${input.base}/${threadPath(alias)}`, "Back", "quiet")
  }</p>`;
  return framed(pages, input, { title: alias, current: "inbox", main });
}
