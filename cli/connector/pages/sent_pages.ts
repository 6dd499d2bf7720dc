/** Sent messages. */
import { markup } from "../../../shared/page/html.ts";
import type { PageResult } from "../../../shared/page/page_app.ts";
import * as ui from "../../../shared/page/parts.ts";
import { when } from "../../../shared/page/times.ts";
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

const TEXT_CHARACTERS = 200;

export const sentRows: readonly LocalRow[] = [
  { method: "GET", path: "sent", live: true, render: sentPage },
  { method: "GET", path: "sent/:seq", render: sentText },
];

function sentPage(pages: Pages, input: Input): PageResult {
  const { deps, options: { agent }, store: { sent } } = pages.connector;
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
    const { tag, until } = stateOf(message, now);
    return {
      cells: [
        markup`<a class="name" href="${`${input.base}/${threadPath(alias)}`}">${ui.name(alias)}</a>`,
        payload === null
          ? markup`<span class="clip soft">Content no longer kept</span>`
          : markup`<span class="clip">${cut(shownText(payload), TEXT_CHARACTERS)}</span>`,
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
