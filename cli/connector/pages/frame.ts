/** What the local pages share: their frame, the names of peers, texts of messages and of errors. */
import { toIso } from "../../../shared/protocol/time.ts";
import type { LocalCalls } from "../../../shared/client/local_client.ts";
import type { PageView } from "../../../shared/page/document.ts";
import { type Html, markup, type Value } from "../../../shared/page/html.ts";
import type { PageInput, PageResult } from "../../../shared/page/page_app.ts";
import { button, link, type Mood, note, problem, shell, tag } from "../../../shared/page/parts.ts";
import type { SentState } from "../../../shared/client/local_shapes.ts";
import { moment } from "../../../shared/page/times.ts";
import { stateText } from "../states.ts";
import type { SentMessage } from "../store/sent_messages.ts";
import { aliasesOf, type Peers } from "../peers.ts";
import type { Connector } from "../connector.ts";
import { describe } from "../../errors.ts";

/** What the pages of a connector have. */
export interface Pages {
  connector: Connector;
  calls: LocalCalls;
  /** The tickets that were made here and are not over, the newest last. */
  tickets: { ticket: string; expiresAt: number }[];
}

export type Input = PageInput<true>;

/** A row of a local page. */
export interface LocalRow {
  method: "GET" | "POST";
  path: string;
  formBytes?: number;
  /** True for a page that is kept up to date. */
  live?: true;
  render(pages: Pages, input: Input): PageResult | Promise<PageResult>;
}

const EVERY_SECONDS = 2;

/** A page with the navigation. `current` is the path of its entry. */
export function framed(
  { connector }: Pages,
  { base, csrf }: Input,
  { title, current, main, mainClass, kind, hasField = false }: {
    title: string;
    current: string;
    main: Value;
    mainClass?: string;
    kind?: string;
    hasField?: boolean;
  },
): { view: PageView } {
  const { agent, profile, proxy } = connector.options;
  const { unread, latest } = unreadOf(connector);
  const { deadLetters } = connector.status();
  const isOnline = connector.linkState === "connected";
  const nav = [
    { path: `${base}/inbox`, text: "Inbox", count: unread },
    { path: `${base}/peers`, text: "Peers" },
    { path: `${base}/pair`, text: "Pair" },
    { path: `${base}/sent`, text: "Sent" },
    { path: `${base}/dead`, text: "Dead letters", count: deadLetters },
    { path: `${base}/status`, text: "Status" },
  ];
  const place = new URL(proxy.origin).host;
  const offline = isOnline ? null : note("warn", "The server cannot be reached. What you write is sent when it can.");
  const body =
    markup`<p class="note warn" id="lost" hidden>The connector does not answer. This page tries again; what you typed stays.</p><p class="note bad" id="over" hidden>This session is over; nothing was sent. Copy your text, then open the page again with svc connector open.</p><div id="offline" data-live>${
      offline && markup`<div id="offline-note">${offline}</div>`
    }</div>${
      shell({
        title: agent.name,
        line: profile.humanName,
        home: `${base}/inbox`,
        nav,
        current: `${base}/${current}`,
        foot: markup`<div id="link" data-live>${markup`<div id="link-state">${
          isOnline ? tag("ok", "Connected") : tag("warn", "Not connected")
        }</div>`}</div><small class="soft">${place}. Only this machine can open this page.</small><button type="button" class="btn bare small" data-notify="on" hidden>Notify me</button>${
          button({ text: "Close session", action: `${base}/close`, csrf, look: "bare" })
        }`,
        main: markup`${main}`,
        ...mainClass === undefined ? {} : { mainClass },
      })
    }`;
  const notice = latest === null ? "New message" : `New message from ${latest}`;
  const count = unread > 0 ? `(${unread}) ` : "";
  return {
    view: {
      title: `${count}${title} · ${agent.name}`,
      body,
      hasField,
      ...kind === undefined ? {} : { kind },
      live: { every: EVERY_SECONDS, unread, notice },
    },
  };
}

/** Number of unread messages, and the alias of the sender of the newest one. */
function unreadOf(connector: Connector): { unread: number; latest: string | null } {
  const { received } = connector.store;
  if (received.delivery === "push") return { unread: 0, latest: null };
  const { messages: [newest] } = received.list({ unread: true, newest: true, limit: 1 });
  return {
    unread: received.counts().waiting,
    latest: newest === undefined ? null : peerNames(connector).aliasOf(newest.fromDid),
  };
}

/** Names of the peers by DID, also of those whose pair has ended. */
export interface PeerNames {
  peers: Peers;
  aliasOf(did: string): string;
  peerOf(did: string): Peers[string] | null;
}

export function peerNames(connector: Connector): PeerNames {
  const peers = connector.peers.all;
  const aliases = aliasesOf(peers);
  const aliasOf = (did: string) => aliases.get(did) ?? did;
  return { peers, aliasOf, peerOf: (did) => peers[aliasOf(did)] ?? null };
}

/** The path of a conversation below the base. */
export function threadPath(alias: string): string {
  return `inbox/${encodeURIComponent(alias)}`;
}

/** The beginning of a text. */
export function cut(text: string, characters: number): string {
  return text.length <= characters ? text : `${text.slice(0, characters).toWellFormed()}…`;
}

/** How good the state of a sent message is. */
const MOODS: Readonly<Record<SentState, Mood>> = {
  sending: "",
  kept: "warn",
  queued: "warn",
  delivered: "ok",
  processed: "ok",
  dead_lettered: "bad",
  refused: "bad",
  unknown: "warn",
};

/** The state of a sent message as a tag, with the time until which it waits. */
export function stateTag({ state, problem, expiresAt }: SentMessage, now: number): Html {
  // The seconds to the next try would change the page each second.
  const text = stateText(
    { state, problem, nextTryAt: null, expiresAt: expiresAt === null ? null : toIso(expiresAt) },
    now,
  );
  return tag(
    MOODS[state],
    markup`${text}${state === "queued" && expiresAt !== null && markup` until ${moment(expiresAt, now)}`}`,
  );
}

/** What went wrong, with the way out. */
export function failed(title: string, error: unknown): Html {
  const { code, cause, fix } = describe(error);
  const end = (text: string) => text === "" || /[.!?]$/.test(text) ? text : `${text}.`;
  return problem(title, `${end(cause)} ${end(fix)}`, code);
}

/** A page that asks before what cannot be undone, or what is easily done by mistake. */
export function confirmation(
  { base, csrf }: Input,
  { title, text, facts, action, fields = {}, label, look = "danger", back, no = "Keep it" }: {
    title: Value;
    text: string;
    facts: Value;
    action: string;
    fields?: Readonly<Record<string, string | number>>;
    label: string;
    look?: "danger" | "";
    back: string;
    /** How to say no. */
    no?: string;
  },
): Html {
  const form = button({ text: label, action: `${base}/${action}`, csrf, fields, look });
  const way = link(`${base}/${back}`, no, "quiet");
  const warning = note(look === "danger" ? "bad" : "warn", text);
  return markup`<div class="form stack"><h1>${title}</h1>${warning}${facts}<div class="row">${form}${way}</div></div>`;
}
