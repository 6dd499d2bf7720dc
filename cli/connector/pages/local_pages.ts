/**
 * The web page of a connector: conversations, peers, pairing, sent messages, dead letters and status, for the person at
 * this machine. What a page changes goes through the local API's routes, so that there is no second set of rules.
 */
import type { LocalCalls } from "../../../shared/client/local_client.ts";
import { PAGE_FILES, type PageAnswer, pageFile, plainPage } from "../../../shared/page/document.ts";
import { markup } from "../../../shared/page/html.ts";
import { isPagePath, newCode, pageApp, type PageRequest, type PageSessions } from "../../../shared/page/page_app.ts";
import { copy } from "../../../shared/page/parts.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import type { Connector } from "../connector.ts";
import { boundedText } from "../local_api/local_route.ts";
import { conversationRows } from "./conversation_pages.ts";
import { deadLetterRows } from "./dead_letter_pages.ts";
import type { LocalRow, Pages } from "./frame.ts";
import { pairingRows } from "./pairing_pages.ts";
import { peerRows } from "./peer_pages.ts";
import { sentRows } from "./sent_pages.ts";
import { statusRows } from "./status_page.ts";
import type { Clock } from "../../../shared/clock.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Random } from "../../../shared/random.ts";

const ROOT = "/p", OPEN = "/open";
const ROWS: readonly LocalRow[] = [
  ...conversationRows,
  ...peerRows,
  ...pairingRows,
  ...sentRows,
  ...deadLetterRows,
  ...statusRows,
];

export interface LocalPagesOptions {
  connector: Connector;
  calls: LocalCalls;
  port: number;
  /** Called when a code to open the page is used or over. */
  onCodeOver(): void;
}

export class LocalPages {
  readonly #sessions: LocalSessions;
  readonly #answer: (request: PageRequest) => Promise<PageAnswer>;
  readonly #origin: string;
  readonly #host: string;
  readonly #command: string;

  constructor({ connector, calls, port, onCodeOver }: LocalPagesOptions) {
    const { clock, random } = connector.deps;
    const { name } = connector.options.agent;
    this.#host = `127.0.0.1:${port}`;
    this.#origin = `http://${this.#host}`;
    this.#command = "svc connector open";
    this.#sessions = new LocalSessions(clock, random, onCodeOver);
    this.#answer = pageApp<Pages, true>({
      pages: { connector, calls, tickets: [] },
      version: () => `${connector.version} ${connector.linkState}`,
      root: ROOT,
      openRoot: OPEN,
      origin: this.#origin,
      hosts: [this.#host],
      texts: {
        place: new URL(connector.options.proxy.origin).host,
        title: "Open the page of this connector?",
        line: `You, or someone at this machine, ran ${this.#command}.`,
        command: `${this.#command} ${name}`,
        over: "It was closed, or not used for an hour. Nothing of what you were writing was sent.",
      },
      sessions: this.#sessions,
      rows: ROWS,
      first: "inbox",
      now: () => clock.now(),
      random: random.bytes,
    });
  }

  /** Makes an address that opens the page once; `null` when too many are open. */
  async open(): Promise<{ url: string; expiresAt: string } | null> {
    const made = await this.#sessions.open();
    return made && { url: `${this.#origin}${OPEN}/${made.code}`, expiresAt: toIso(made.expiresAt) };
  }

  answer(request: Request): Promise<Response> | null {
    const { pathname, searchParams } = new URL(request.url);
    const isPage = isPagePath({ root: ROOT, openRoot: OPEN }, pathname);
    const isOpen = pathname === "/" || Object.hasOwn(PAGE_FILES, pathname);
    if (!isPage && !(isOpen && request.method === "GET")) return null;
    const { method, headers } = request;
    const text = (maxBytes: number) => boundedText(request, maxBytes).catch(() => null);
    const answer = isPage
      ? this.#answer({ method, path: pathname, query: searchParams, headers, text })
      : Promise.resolve(this.#openAnswer(pathname, headers));
    return answer.then(({ status, headers, body }) => new Response(body, { status, headers }));
  }

  /** What anyone at this machine may see: the files of the pages, and how to open them, without a name. */
  #openAnswer(path: string, headers: Headers): PageAnswer {
    if (headers.get("host")?.toLowerCase() !== this.#host) {
      return plainPage("connector", "Not here", "This address belongs to another name.", 403);
    }
    if (path !== "/") return pageFile(path);
    const how = markup`<p class="soft">Only the person who started it opens its page:</p>${
      copy("command", this.#command)
    }`;
    return plainPage("connector", "This is a connector of svc", how, 200);
  }
}

/** Longer, and a code in a file or a history stays useful to another reader. */
const CODE_MS = LIMITS.pageCodeMs;
/** More at a time are only made by a program that does not open them. */
const CODES_MAX = 5;
/** One for each browser of a person; the oldest makes room. */
const SESSIONS_MAX = 4;
const SESSION_MS = 8 * 3_600_000;
const IDLE_MS = 3_600_000;

interface Session {
  createdAt: number;
  seenAt: number;
}

export class LocalSessions implements PageSessions<true> {
  readonly #codes = new Map<string, number>();
  readonly #sessions = new Map<string, Session>();

  /** @param onCodeOver called when a code is used or over: the file that holds it is removed then */
  constructor(readonly clock: Clock, readonly random: Random, readonly onCodeOver: () => void) {}

  /** Makes a code; `null` when too many are open. */
  async open(): Promise<{ code: string; expiresAt: number } | null> {
    this.#forgetOld();
    if (this.#codes.size >= CODES_MAX) return null;
    const { code, digest } = await newCode(this.random.bytes);
    const expiresAt = this.clock.now() + CODE_MS;
    this.#codes.set(digest, expiresAt);
    this.clock.after(CODE_MS, () => this.#codes.delete(digest) && this.onCodeOver());
    return { code, expiresAt };
  }

  take(code: string, session: string): true | null {
    this.#forgetOld();
    if (!this.#codes.delete(code)) return null;
    this.onCodeOver();
    const now = this.clock.now();
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size >= SESSIONS_MAX && oldest !== undefined) this.#sessions.delete(oldest);
    this.#sessions.set(session, { createdAt: now, seenAt: now });
    return true;
  }

  find(digest: string, isUse: boolean): true | null {
    const session = this.#sessions.get(digest);
    if (session === undefined) return null;
    const now = this.clock.now();
    if (now - session.createdAt >= SESSION_MS || now - session.seenAt >= IDLE_MS) {
      this.#sessions.delete(digest);
      return null;
    }
    if (isUse) session.seenAt = now;
    return true;
  }

  end(digest: string): void {
    this.#sessions.delete(digest);
  }

  #forgetOld(): void {
    for (const [digest, expiresAt] of this.#codes) if (expiresAt <= this.clock.now()) this.#codes.delete(digest);
  }
}
