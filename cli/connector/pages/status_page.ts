/** The status of the connector. */
import { markup } from "../../../shared/page/html.ts";
import type { PageResult } from "../../../shared/page/page_app.ts";
import * as ui from "../../../shared/page/parts.ts";
import { statusFields } from "../status.ts";
import { framed, type Input, type LocalRow, type Pages } from "./frame.ts";

export const statusRows: readonly LocalRow[] = [
  { method: "GET", path: "status", live: true, render: statusPage },
];

function statusPage(pages: Pages, input: Input): PageResult {
  const facts = statusFields(pages.connector.status()).flatMap(([label, value]) =>
    value === undefined ? [] : [[`${label.charAt(0).toUpperCase()}${label.slice(1)}`, value] as const]
  );
  const main = markup`${ui.head("Status")}<div id="status" data-live><div id="status-facts">${
    ui.card("This connector", ui.lines(facts))
  }</div></div>`;
  return framed(pages, input, { title: "Status", current: "status", main });
}
