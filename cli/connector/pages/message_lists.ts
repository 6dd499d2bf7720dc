/** Lists of messages: those that were sent, with their states, and dead letters, which can be handed over again. */
import { call, post } from "../../../shared/client/local_client.ts";
import { markup } from "../../../shared/page/html.ts";
import type { PageResult } from "../../../shared/page/page_app.ts";
import * as ui from "../../../shared/page/parts.ts";
import { when } from "../../../shared/page/times.ts";
import { PLATFORMS } from "../../platforms/table.ts";
import { Purged, Replayed } from "../local_api/inbox_handlers.ts";
import { textOf } from "../local_api/message_json.ts";
import {
  cut,
  framed,
  type Input,
  type LocalRow,
  nameOf,
  numberIn,
  PAGE_ROWS,
  type Pages,
  shownText,
  stateOf,
  threadPath,
} from "./frame.ts";

const SENT_CHARACTERS = 200;
const LETTER_CHARACTERS = 1_500;

export const messageListRows: readonly LocalRow[] = [
  { method: "GET", path: "sent", live: true, render: sentPage },
  { method: "GET", path: "sent/:seq", render: sentText },
  { method: "GET", path: "dead", live: true, render: deadPage },
  { method: "POST", path: "dead/replay", render: replay },
  { method: "GET", path: "dead/delete", render: deletePage },
  { method: "POST", path: "dead/delete", render: purge },
];

function sentPage(pages: Pages, input: Input): PageResult {
  const { deps, options: { agent }, store: { received, sent } } = pages.connector;
  const { messages, more } = sent.list({ before: numberIn(input.query.get("before")), limit: PAGE_ROWS });
  const now = deps.clock.now();
  const last = messages.at(-1);
  if (last === undefined) {
    const text = `What ${agent.name} sends is listed here with its state.`;
    const way = ui.link(`${input.base}/send`, "Write a message");
    const main = markup`${ui.head("Sent")}${ui.empty("Nothing sent yet", text, way)}`;
    return framed(pages, input, { title: "Sent", current: "sent", main, kind: "none" });
  }
  const rows = messages.map((message) => {
    const alias = nameOf(pages.connector, message.toDid), payload = sent.payloadOf(message);
    const { tag, until } = stateOf(message, now, received.repliesTo(message));
    return {
      cells: [
        markup`<a class="name" href="${`${input.base}/${threadPath(alias)}`}">${ui.name(alias)}</a>`,
        payload === null
          ? markup`<span class="clip soft">Content no longer kept</span>`
          : markup`<span class="clip">${cut(shownText(payload), SENT_CHARACTERS)}</span>`,
        markup`${tag}<small>${until || when(message.stateAt, now)}</small>`,
        when(message.sentAt, now),
      ],
    };
  });
  const columns = ["To", "Message", "State", "Sent"];
  const main = markup`<div class="stack">${
    ui.head("Sent", `The latest messages of ${agent.name}, with the state of each.`)
  }${ui.table({ caption: "Sent messages", id: "sent", columns, rows })}${
    ui.pager("Newest first", more ? `?before=${last.seq}` : null)
  }</div>`;
  return framed(pages, input, { title: "Sent", current: "sent", main, kind: "rows" });
}

function sentText(pages: Pages, input: Input): PageResult {
  const seq = numberIn(input.params.seq);
  const payload = seq === undefined ? null : pages.connector.store.sent.payloadOf({ seq });
  if (payload === null) return { to: "sent" };
  const main = markup`${ui.head("Sent message")}<pre class="text">${shownText(payload)}</pre>`;
  return framed(pages, input, { title: "Sent message", current: "sent", main });
}

function deadPage(pages: Pages, input: Input): PageResult {
  const { connector } = pages, { base, csrf } = input;
  const letters = connector.store.received.deadLetters(PAGE_ROWS);
  if (letters.length === 0) {
    const text = "A message that cannot be handed over ends here, and its sender is told.";
    const main = markup`${ui.head("Dead letters")}${ui.empty("No dead letters", text)}`;
    return framed(pages, input, { title: "Dead letters", current: "dead", main, kind: "none" });
  }
  const now = connector.deps.clock.now();
  const { runtime: { platform }, deadLetters: count } = connector.status();
  const isPull = platform === "inbox";
  const cards = letters.map((letter) => {
    const { id, fromAgentDid, payload, receivedAt, endedAt, attempts, problem } = letter;
    const person = connector.peers.of(fromAgentDid)?.humanName ?? "";
    const again = { text: "Hand over again", action: `${base}/dead/replay`, csrf, fields: { id } };
    return markup`<article class="card stack tight" id="${`dead-${id}`}"><div class="row"><span class="name">${
      ui.name(nameOf(connector, fromAgentDid))
    }</span><span class="small soft">${ui.name(person)} · received ${when(receivedAt, now)}, given up ${
      when(endedAt, now)
    } after ${ui.counted(attempts, "attempt")}</span></div>${
      ui.note("bad", isPull ? problem : `The last answer: ${problem}`)
    }<pre class="text small">${cut(textOf(letter) ?? payload, LETTER_CHARACTERS)}</pre><div class="row">${
      ui.button(again)
    }${ui.link(`${base}/dead/delete?id=${id}`, "Delete…", "quiet")}</div></article>`;
  });
  const reader = isPull
    ? "The agent has not read them in time"
    : `Refused by ${PLATFORMS[platform].name}, or not taken in time`;
  const main = markup`${
    ui.head("Dead letters", `${reader}. Their senders know.`, ui.link(`${base}/dead/delete`, "Delete all…", "quiet"))
  }<div class="stack" id="dead" data-live>${cards}${
    count > letters.length &&
    markup`<div id="dead-more">${ui.pager(`The newest ${letters.length} of ${count}`, null)}</div>`
  }</div>`;
  return framed(pages, input, { title: "Dead letters", current: "dead", main, kind: "rows" });
}

async function replay(pages: Pages, { form }: Input): Promise<PageResult> {
  const id = numberIn(form.get("id"));
  if (id !== undefined) await call(pages.calls, Replayed, post("/v1/dead-letter/replay", { ids: [id] }));
  return { to: "dead" };
}

function deletePage(pages: Pages, input: Input): PageResult {
  const { base, csrf } = input;
  const id = numberIn(input.query.get("id"));
  const count = pages.connector.status().deadLetters;
  if (count === 0) return { to: "dead" };
  const isOne = id !== undefined || count === 1;
  const main = ui.confirmation({
    title: isOne ? "Delete this dead letter?" : `Delete all ${count} dead letters?`,
    text:
      "The content is deleted permanently. Its sender is told that the message was not delivered, and can send it again.",
    fields: ui.hidden(id === undefined ? { count } : { id }),
    label: isOne ? "Delete" : `Delete all ${count}`,
  }, { action: `${base}/dead/delete`, csrf, back: `${base}/dead` });
  return framed(pages, input, { title: "Dead letters", current: "dead", main, hasField: true });
}

async function purge(pages: Pages, input: Input): Promise<PageResult> {
  const { form } = input, id = numberIn(form.get("id"));
  const isOther = numberIn(form.get("count")) !== pages.connector.status().deadLetters;
  // Asks again when the number has changed, because a dead letter that came after the question would be deleted unseen.
  if (id === undefined && isOther) return deletePage(pages, input);
  await call(pages.calls, Purged, post("/v1/dead-letter/purge", id === undefined ? { all: true } : { ids: [id] }));
  return { to: "dead" };
}
