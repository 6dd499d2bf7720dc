/** Sent messages, dead letters and the status of the connector. */
import { call, post } from "../../../shared/client/local_client.ts";
import { markup } from "../../../shared/page/html.ts";
import type { PageResult } from "../../../shared/page/page_app.ts";
import { button, card, empty, head, lines, link, name, note, pager, table } from "../../../shared/page/parts.ts";
import { when } from "../../../shared/page/times.ts";
import { PLATFORMS } from "../../platforms/table.ts";
import { textOf } from "../local_api/message_json.ts";
import { Purged, Replayed } from "../local_api/dead_letter_handlers.ts";
import { statusFields } from "../status.ts";
import {
  confirmation,
  cut,
  framed,
  type Input,
  type LocalRow,
  type Pages,
  peerNames,
  stateTag,
  threadPath,
} from "./frame.ts";

const PAGE_ROWS = 50;
const TEXT_CHARACTERS = 200;
const LETTER_CHARACTERS = 1_500;

export const recordRows: readonly LocalRow[] = [
  { method: "GET", path: "sent", live: true, render: sentPage },
  { method: "GET", path: "sent/:seq", render: sentText },
  { method: "GET", path: "dead", live: true, render: deadPage },
  { method: "POST", path: "dead/replay", render: replay },
  { method: "GET", path: "dead/delete", render: deletePage },
  { method: "POST", path: "dead/delete", render: purge },
  { method: "GET", path: "status", live: true, render: statusPage },
];

function numberIn(text: string | null | undefined): number | undefined {
  return /^\d{1,15}$/.test(text ?? "") ? Number(text) : undefined;
}

function sentPage(pages: Pages, input: Input): PageResult {
  const { connector } = pages;
  const { sent } = connector.store;
  const { messages, more } = sent.list({ before: numberIn(input.query.get("before")), limit: PAGE_ROWS });
  const names = peerNames(connector);
  const now = connector.deps.clock.now();
  const rows = messages.map((message) => {
    const alias = names.aliasOf(message.toDid), payload = sent.payloadOf(message);
    return {
      cells: [
        markup`<a class="name" href="${`${input.base}/${threadPath(alias)}`}">${name(alias)}</a>`,
        payload === null
          ? markup`<span class="clip soft">Content no longer kept</span>`
          : markup`<span class="clip">${
            cut(textOf({ payload: payload, identity: null }) ?? payload, TEXT_CHARACTERS)
          }</span>`,
        markup`${stateTag(message, now)}<small>${when(message.stateAt, now)}</small>`,
        when(message.sentAt, now),
      ],
    };
  });
  const { name: agent } = connector.options.agent;
  const last = messages.at(-1)?.seq;
  const main = rows.length === 0
    ? markup`${head("Sent")}${
      empty(
        "Nothing sent yet",
        `What ${agent} sends is listed here with its state.`,
        link(`${input.base}/send`, "Write a message"),
      )
    }`
    : markup`<div class="stack">${head("Sent", `The latest messages of ${agent}, with the state of each.`)}${
      table({
        caption: "Sent messages",
        id: "sent",
        columns: [{ text: "To" }, { text: "Message" }, { text: "State" }, { text: "Sent" }],
        rows,
      })
    }${pager("Newest first", more && last !== undefined ? `?before=${last}` : null)}</div>`;
  return framed(pages, input, { title: "Sent", current: "sent", main, kind: rows.length === 0 ? "none" : "rows" });
}

/** The whole text of a sent message. */
function sentText(pages: Pages, input: Input): PageResult {
  const { sent } = pages.connector.store;
  const seq = numberIn(input.params.seq);
  const payload = seq === undefined ? null : sent.payloadOf({ seq });
  if (payload === null) return { to: "sent" };
  const main = markup`${head("Sent message")}<pre class="text">${
    textOf({ payload: payload, identity: null }) ?? payload
  }</pre>`;
  return framed(pages, input, { title: "Sent message", current: "sent", main });
}

function deadPage(pages: Pages, input: Input): PageResult {
  const { connector } = pages;
  const letters = connector.store.received.deadLetters(PAGE_ROWS);
  const names = peerNames(connector);
  const now = connector.deps.clock.now();
  const { base, csrf } = input;
  const cards = letters.map((letter) => {
    const alias = names.aliasOf(letter.fromAgentDid);
    const text = textOf({ payload: letter.payload, identity: null }) ?? letter.payload;
    return markup`<article class="card stack tight" id="${`dead-${letter.id}`}"><div class="row"><span class="name">${
      name(alias)
    }</span><span class="small soft">${name(names.peerOf(letter.fromAgentDid)?.humanName ?? "")} · received ${
      when(letter.receivedAt, now)
    }, given up ${when(letter.endedAt, now)} after ${letter.attempts} attempts</span></div>${
      note("bad", letter.problem)
    }<pre class="text small">${cut(text, LETTER_CHARACTERS)}</pre><div class="row">${
      button({ text: "Hand over again", action: `${base}/dead/replay`, csrf, fields: { id: letter.id } })
    }${link(`${base}/dead/delete?id=${letter.id}`, "Delete…", "quiet")}</div></article>`;
  });
  const { platform } = connector.status().runtime;
  const reader = platform === "inbox"
    ? "The agent has not read them in time"
    : `${PLATFORMS[platform].name} did not take them`;
  const main = letters.length === 0
    ? markup`${head("Dead letters")}${
      empty("No dead letters", "A message that cannot be handed over ends here, and its sender is told.")
    }`
    : markup`${
      head("Dead letters", `${reader}. Their senders know.`, link(`${base}/dead/delete`, "Delete all…", "quiet"))
    }<div class="stack" id="dead" data-live>${cards}</div>`;
  return framed(pages, input, {
    title: "Dead letters",
    current: "dead",
    main,
    kind: letters.length === 0 ? "none" : "rows",
  });
}

async function replay(pages: Pages, { form }: Input): Promise<PageResult> {
  const id = numberIn(form.get("id"));
  if (id !== undefined) await call(pages.calls, Replayed, post("/v1/dead-letter/replay", { ids: [id] }));
  return { to: "dead" };
}

function deletePage(pages: Pages, input: Input): PageResult {
  const id = numberIn(input.query.get("id"));
  const count = pages.connector.status().deadLetters;
  if (count === 0) return { to: "dead" };
  const main = confirmation(input, {
    title: id === undefined ? `Delete all ${count} dead letters?` : "Delete this dead letter?",
    text:
      "The content is deleted permanently. Its sender is told that the message was not delivered, and can send it again.",
    facts: null,
    action: "dead/delete",
    fields: id === undefined ? {} : { id },
    label: id === undefined ? `Delete all ${count}` : "Delete",
    back: "dead",
  });
  return framed(pages, input, { title: "Dead letters", current: "dead", main, hasField: true });
}

async function purge(pages: Pages, { form }: Input): Promise<PageResult> {
  const id = numberIn(form.get("id"));
  await call(pages.calls, Purged, post("/v1/dead-letter/purge", id === undefined ? { all: true } : { ids: [id] }));
  return { to: "dead" };
}

function statusPage(pages: Pages, input: Input): PageResult {
  const fields = statusFields(pages.connector.status());
  const facts = fields.flatMap(([label, value], i) =>
    value === undefined ? [] : [[label, markup`<span id="${`status-${i}`}">${value}</span>`] as const]
  );
  const main = markup`${head("Status")}<div id="status" data-live><div id="status-facts">${
    card("This connector", lines(facts))
  }</div></div>`;
  return framed(pages, input, { title: "Status", current: "status", main });
}
