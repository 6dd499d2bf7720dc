/** What the local pages share: their frame, the names of peers, texts of messages and of errors. */
import { toIso } from "../../../shared/protocol/time.ts";
import type { LocalCalls } from "../../../shared/client/local_client.ts";
import type { PageView } from "../../../shared/page/document.ts";
import { type Html, markup, type Value } from "../../../shared/page/html.ts";
import type { PageInput, PageRow } from "../../../shared/page/page_app.ts";
import * as ui from "../../../shared/page/parts.ts";
import type { MessageState } from "../../../shared/client/agent_api.ts";
import type { Replies } from "../../../shared/client/local_shapes.ts";
import { moment } from "../../../shared/page/times.ts";
import { stateText } from "../states.ts";
import type { SentMessage } from "../store/sent_messages.ts";
import { textOf } from "../local_api/message_json.ts";
import type { Connector } from "../connector.ts";
import { describe, describeFor } from "../../errors.ts";

export interface Pages {
  connector: Connector;
  calls: LocalCalls;
  /** The tickets that were made here and have not expired, the newest last. */
  tickets: { ticket: string; expiresAt: number }[];
}

export type Input = PageInput<true>;
export type LocalRow = PageRow<Pages, true>;

export const PAGE_ROWS = 50;
const EVERY_SECONDS = 2;

/** A page with the navigation. `current` is the path of its entry. */
export function framed(
  { connector }: Pages,
  { base, csrf }: Input,
  { title, current, main, mainClass, ...rest }: Pick<PageView, "title" | "kind" | "hasField"> & {
    current: string;
    main: Html;
    mainClass?: string;
  },
): { view: PageView } {
  const { agent, profile, proxy } = connector.options;
  const { unread, latest } = unreadOf(connector);
  const isOnline = connector.linkState === "connected";
  const shell = ui.shell({
    title: agent.name,
    line: profile.humanName,
    home: `${base}/inbox`,
    nav: [
      { path: `${base}/inbox`, text: "Inbox", count: unread },
      { path: `${base}/peers`, text: "Peers" },
      { path: `${base}/pair`, text: "Pair" },
      { path: `${base}/sent`, text: "Sent" },
      { path: `${base}/dead`, text: "Dead letters", count: connector.status().deadLetters },
      { path: `${base}/status`, text: "Status" },
    ],
    current: `${base}/${current}`,
    foot: markup`<div id="link" data-live><div id="link-state">${
      isOnline ? ui.tag("ok", "Connected") : ui.tag("warn", "Not connected")
    }</div></div><small class="soft">${
      new URL(proxy.origin).host
    }. Only this machine can open this page.</small><button type="button" class="btn bare small" data-notify="on" hidden>Notify me</button>${
      ui.button({ text: "Close session", action: `${base}/close`, csrf, look: "bare" })
    }`,
    main,
    mainClass,
    lost: "The connector does not answer. This page tries again; what you typed stays.",
    over: "This session is over; nothing was sent. Copy your text, then open the page again with svc connector open.",
  });
  const offline = ui.note("warn", "The server cannot be reached. What you write is sent when it can.");
  return {
    view: {
      ...rest,
      title: `${unread > 0 ? `(${unread}) ` : ""}${title} · ${agent.name}`,
      body: markup`<div id="offline" data-live>${
        !isOnline && markup`<div id="offline-note">${offline}</div>`
      }</div>${shell}`,
      live: {
        every: EVERY_SECONDS,
        unread,
        notice: latest === null ? "New message" : `New message from ${latest}`,
      },
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
    latest: newest === undefined ? null : nameOf(connector, newest.fromDid),
  };
}

/** The alias of a peer, also of one whose pair has ended; the DID of a stranger. */
export function nameOf({ peers }: Connector, did: string): string {
  return peers.aliasOf(did) ?? did;
}

export function threadPath(alias: string): string {
  return `inbox/${encodeURIComponent(alias)}`;
}

export function peerPath(alias: string): string {
  return `peers/${encodeURIComponent(alias)}`;
}

export function numberIn(text: string | null | undefined): number | undefined {
  return /^\d{1,15}$/.test(text ?? "") ? Number(text) : undefined;
}

/** What a person reads of a payload: its text, or its JSON. */
export function shownText(payload: string): string {
  return textOf({ payload, identity: null }) ?? payload;
}

export function cut(text: string, characters: number): string {
  return text.length <= characters ? text : `${text.slice(0, characters).toWellFormed()}…`;
}

const MOODS: Readonly<Record<MessageState, ui.Mood>> = {
  sending: "",
  kept: "warn",
  queued: "warn",
  delivered: "ok",
  processed: "ok",
  dead_lettered: "bad",
  refused: "bad",
  unknown: "warn",
};

/**
 * The state of a sent message as a tag, and until when it waits.
 *
 * @param replies what is known of its replies; nothing where the replies themselves are shown
 */
export function stateOf(
  { state, problem, expiresAt }: SentMessage,
  now: number,
  replies: Partial<Replies> = {},
): { tag: Html; until: Value } {
  // The time of the next try is left out, because its countdown would change the page each second.
  const given = {
    state,
    problem,
    ...replies,
    nextTryAt: null,
    expiresAt: expiresAt === null ? null : toIso(expiresAt),
  };
  const until = state === "queued" && expiresAt !== null && expiresAt > now && markup`until ${moment(expiresAt, now)}`;
  return { tag: ui.tag(MOODS[state], stateText(given, now)), until };
}

export function failed(title: string, error: unknown, pages?: Pages): Html {
  const { code, cause, fix } = pages ? describeFor(pages.connector.options.agent.name, error) : describe(error);
  const end = (text: string) => text === "" || /[.!?]$/.test(text) ? text : `${text}.`;
  return ui.problem(title, `${end(cause)} ${end(fix)}`, code);
}
