/**
 * The web page of a connector: conversations, peers, pairing, sent messages, dead letters and status, for the person at
 * this machine. What a page changes goes through the local API's routes, so that there is no second set of rules.
 */
import type { LocalCalls } from "../../../shared/client/local_client.ts";
import { PAGE_FILES, type PageAnswer, pageFile, plainPage } from "../../../shared/page/document.ts";
import { markup } from "../../../shared/page/html.ts";
import { isPagePath, pageApp, type PageResult } from "../../../shared/page/page_app.ts";
import { card, copy, head, lines } from "../../../shared/page/parts.ts";
import { moment } from "../../../shared/page/times.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import type { Connector } from "../connector.ts";
import { boundedText } from "../local_api/local_route.ts";
import { statusFields } from "../status.ts";
import { conversationRows } from "./conversation_pages.ts";
import { failed, framed, type Input, type LocalRow, type Pages } from "./frame.ts";
import { messageListRows } from "./message_lists.ts";
import { pairingRows } from "./pairing_pages.ts";
import { peerRows } from "./peer_pages.ts";
import { LocalSessions } from "./sessions.ts";

/** A time in a text of `statusFields`. */
const TIME = /(\d{4}-\d\d-\d\dT[\d:.]+Z)/;
const ROOT = "/p", OPEN = "/open", COMMAND = "svc connector open";
const ROWS: readonly LocalRow[] = [
  ...conversationRows,
  ...peerRows,
  ...pairingRows,
  ...messageListRows,
  { method: "GET", path: "status", live: true, render: statusPage },
];

export class LocalPages {
  readonly #sessions: LocalSessions;
  readonly #answer: (request: Request) => Promise<PageAnswer>;
  readonly #host: string;

  /** @param onCodeOver called when a code was used or has expired */
  constructor(connector: Connector, calls: LocalCalls, port: number, onCodeOver: () => void) {
    const { clock, random } = connector.deps;
    const { name } = connector.options.agent;
    this.#host = `127.0.0.1:${port}`;
    this.#sessions = new LocalSessions(clock, random, onCodeOver);
    const pages: Pages = { connector, calls, tickets: [] };
    this.#answer = pageApp<Pages, true>({
      pages,
      version: () => `${connector.version} ${connector.linkState} ${pages.tickets.at(-1)?.expiresAt}`,
      root: ROOT,
      openRoot: OPEN,
      origin: `http://${this.#host}`,
      texts: {
        place: new URL(connector.options.proxy.origin).host,
        title: "Open the page of this connector?",
        line: `You, or someone at this machine, ran ${COMMAND}.`,
        command: `${COMMAND} ${name}`,
        over: "It was closed, or not used for an hour. Nothing of what you were writing was sent.",
      },
      sessions: this.#sessions,
      rows: ROWS,
      first: "inbox",
      textOf: (request, maxBytes) => boundedText(request, maxBytes, clock).catch(() => null),
      now: () => clock.now(),
      random: random.bytes,
    });
  }

  /** Makes an address that opens the page once; `null` when too many are open. */
  async open(): Promise<{ url: string; expiresAt: string } | null> {
    const made = await this.#sessions.open();
    return made && { url: `http://${this.#host}${OPEN}/${made.code}`, expiresAt: toIso(made.expiresAt) };
  }

  answer(request: Request): Promise<Response> | null {
    const { pathname } = new URL(request.url);
    const isPage = isPagePath({ root: ROOT, openRoot: OPEN }, pathname);
    const isOpen = pathname === "/" || Object.hasOwn(PAGE_FILES, pathname);
    if (!isPage && !(isOpen && request.method === "GET")) return null;
    const answer = isPage
      ? this.#answer(request).catch((error) => sorry(pathname, error))
      : Promise.resolve(this.#openAnswer(pathname, request.headers));
    return answer.then(({ status, headers, body }) => new Response(body, { status, headers }));
  }

  /** What anyone at this machine may see: the files of the pages and how to open them, but not the agent's name. */
  #openAnswer(path: string, headers: Headers): PageAnswer {
    if (headers.get("host")?.toLowerCase() !== this.#host) {
      return plainPage("connector", "Not here", "This address belongs to another name.", 403);
    }
    if (path !== "/") return pageFile(path);
    const how = markup`<p class="soft">Only the person who started it opens its page:</p>${copy("command", COMMAND)}`;
    return plainPage("connector", "This is a connector of svc", how, 200);
  }
}

/**
 * The page for an error that no other page shows, as on a full disk. Without it the browser would show a bare error,
 * and no way back.
 */
function sorry(path: string, error: unknown): PageAnswer {
  const first = path.split("/").slice(0, 3).concat("inbox").join("/");
  const way = markup`${failed("Not done.", error)}<p><a href="${first}">Go to the first page</a></p>`;
  return plainPage("connector", "Something went wrong", way, 500);
}

function statusPage(pages: Pages, input: Input): PageResult {
  const now = pages.connector.deps.clock.now();
  const withTimes = (value: unknown) =>
    String(value).split(TIME).map((part, i) => i % 2 === 0 ? part : moment(part, now));
  const facts = statusFields(pages.connector.status()).flatMap(([label, value]) =>
    value === undefined ? [] : [[`${label.charAt(0).toUpperCase()}${label.slice(1)}`, withTimes(value)] as const]
  );
  const main = markup`${head("Status")}<div id="status" data-live><div id="status-facts">${
    card("This connector", lines(facts))
  }</div></div>`;
  return framed(pages, input, { title: "Status", current: "status", main });
}
