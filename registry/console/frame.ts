/** What the pages of the console share: their frame, the names behind DIDs, states as tags. */
import type { AgentDeps } from "../agents/store.ts";
import type { InviteDeps } from "../invites/store.ts";
import type { PeopleDeps } from "../people/store.ts";
import type { Suspensions } from "../people/suspensions.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { AgentRecord, HumanRecord } from "../schema/records.ts";
import type { RegistryConfig } from "../config.ts";
import type { RelayAway, RelayView } from "./relay.ts";
import type { ConsoleSession } from "./sessions.ts";
import type { PageView } from "../../shared/page/document.ts";
import { type Html, markup, type Value } from "../../shared/page/html.ts";
import type { PageInput, PageResult } from "../../shared/page/page_app.ts";
import { button, link, type Mood, name, note, problem, shell, tag } from "../../shared/page/parts.ts";
import { duration, when } from "../../shared/page/times.ts";
import type { AdminCounts } from "../../shared/protocol/api/admin.ts";
import { type AgentConnection, ConnectionList, QueueList } from "../../shared/protocol/api/relay_admin.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { type ErrorCode, ERRORS, ServiceError } from "../../shared/protocol/errors.ts";
import { DAY_MS } from "../../shared/clock.ts";
import { parseIso } from "../../shared/protocol/time.ts";
import type { StoreCount } from "../../shared/server/store/store_count.ts";
import type { CrlPublisher } from "../revocation/crl.ts";

/** Rows of a page of a list. */
export const PAGE_ROWS = 50;

export type ConsoleDeps = AgentDeps & InviteDeps & PeopleDeps & {
  config: RegistryConfig;
  counts: StoreCount<AdminCounts>;
  suspensions: Suspensions;
  crl: CrlPublisher;
};

export interface ConsolePages {
  deps: ConsoleDeps;
  relay: RelayView;
  /** Whether the registry accepts requests. */
  isReady(): Promise<boolean>;
}

export type Input = PageInput<ConsoleSession>;

export interface ConsoleRow {
  method: "GET" | "POST";
  path: string;
  /** True for a page that is kept up to date. */
  live?: true;
  render(pages: ConsolePages, input: Input): PageResult | Promise<PageResult>;
}

const EVERY_SECONDS = 10;
/** An identity that ends sooner is marked. */
const ENDING_MS = 7 * DAY_MS;
const NAV = ["Overview", "People", "Agents", "Deliveries", "Queues", "Invites", "Audit", "Limits"];

/** A page with the navigation. `current` is the path of its entry. */
export function framed(
  { deps }: ConsolePages,
  { base, csrf, session }: Input,
  { title, current, main, isLive = false, kind, hasField = false }: {
    title: string;
    current: string;
    main: Value;
    isLive?: boolean;
    kind?: string;
    hasField?: boolean;
  },
): { view: PageView } {
  const place = new URL(deps.config.registryUrl).host;
  const body =
    markup`<p class="note warn" id="lost" hidden>The server does not answer. This page tries again.</p><p class="note bad" id="over" hidden>This session is over. Copy your text, then open the console again with svc admin open.</p>${
      shell({
        title: "svc console",
        line: place,
        home: `${base}/overview`,
        nav: NAV.map((text) => ({ path: `${base}/${text.toLowerCase()}`, text })),
        current: `${base}/${current}`,
        foot: markup`<small class="soft">${name(session.human.displayName)}, admin</small>${
          button({ text: "Log out", action: `${base}/close`, csrf, look: "bare" })
        }`,
        main: markup`${main}`,
      })
    }`;
  const live = isLive ? { live: { every: EVERY_SECONDS } } : {};
  return {
    view: { title: `${title} · ${place}`, body, hasField, ...kind === undefined ? {} : { kind }, ...live },
  };
}

/** An agent as a page names it. */
export interface NamedAgent {
  id: string;
  name: string;
  ownerName: string;
}

/** The names of agents by DID. An agent that is no longer kept, or of another registry, has none. */
export async function agentsByDid({ deps }: ConsolePages, dids: Iterable<string>): Promise<Map<string, NamedAgent>> {
  const own = [...new Set(dids)].flatMap((did) => {
    const parsed = parseDid(did);
    return parsed?.kind === "agent" && parsed.authority === deps.authority ? [{ did, id: parsed.id }] : [];
  });
  const found = await Promise.all(own.map(async ({ did, id }) => {
    const { value: agent } = await deps.reads.get<AgentRecord>(KEYS.agent(id));
    if (agent === null) return null;
    const { value: owner } = await deps.reads.get<HumanRecord>(KEYS.human(agent.ownerId));
    return [did, { id, name: agent.name, ownerName: owner?.displayName ?? "" }] as const;
  }));
  return new Map(found.filter((entry) => entry !== null));
}

export async function peopleByDid({ deps }: ConsolePages, dids: Iterable<string>): Promise<Map<string, HumanRecord>> {
  const ids = [...new Set(dids)].flatMap((did) => {
    const parsed = parseDid(did);
    return parsed?.kind === "human" && parsed.authority === deps.authority ? [parsed.id] : [];
  });
  const found = await Promise.all(ids.map((id) => deps.reads.get<HumanRecord>(KEYS.human(id))));
  return new Map(found.flatMap(({ value }) => value === null ? [] : [[value.did, value]]));
}

/** An agent with its owner, as a cell of a table. */
export function agentCell(base: string, agents: ReadonlyMap<string, NamedAgent>, did: string | null): Html {
  const agent = did === null ? undefined : agents.get(did);
  if (agent === undefined) return markup`<span class="id">${did === null ? "not known" : shortId(did)}</span>`;
  return markup`${agentLink(base, agent)}<small>${name(agent.ownerName)}</small>`;
}

export function agentLink(base: string, agent: Pick<NamedAgent, "id" | "name">): Html {
  return markup`<a class="name" href="${`${base}/agents/${agent.id}`}">${name(agent.name)}</a>`;
}

export function personLink(base: string, { id, displayName }: Pick<HumanRecord, "id" | "displayName">): Html {
  return markup`<a class="name" href="${`${base}/people/${id}`}">${name(displayName)}</a>`;
}

/** An ID in few characters; the whole one is on the page of its record. */
export function shortId(text: string): string {
  const id = parseDid(text)?.id ?? text;
  return id.length <= 14 ? id : `${id.slice(0, 6)}…${id.slice(-4)}`;
}

/** When an identity ends, for one that is close or over as a tag. */
export function identityEnd({ status, expiresAt }: Pick<AgentRecord, "status" | "expiresAt">, now: number): Value {
  if (status === "revoked") return "–";
  const at = parseIso(expiresAt) ?? 0, left = at - now;
  if (left <= 0) return tag("bad", markup`ended ${when(at, now)}`);
  const text = `in ${duration(left)}`;
  return left > ENDING_MS ? text : tag("warn", text);
}

/** Whether an agent is connected. `undefined`: it never was; `null`: the proxy has not answered. */
export function connectionTag(connection: AgentConnection | undefined | null, now: number): Html {
  if (connection === null) return tag("", "not known");
  if (connection === undefined) return tag("", "never");
  const since = parseIso(connection.connectedAt) ?? 0, until = parseIso(connection.disconnectedAt ?? "");
  if (connection.online) return tag("ok", markup`since ${when(since, now)}`);
  return tag("", until === null ? "offline" : `offline ${duration(Math.max(0, now - until))}`);
}

/** What the proxy knows about the agents of a page. */
export interface RelayState {
  connections: Map<string, AgentConnection>;
  /** Waiting messages by DID. */
  waiting: Map<string, { messages: number; senders: number; oldestExpiresAt: string }>;
}

export async function relayStateOf(
  { relay }: ConsolePages,
  session: ConsoleSession,
  ids: readonly string[],
): Promise<RelayState> {
  if (ids.length === 0) return { connections: new Map(), waiting: new Map() };
  const query = { agents: ids.join(","), limit: "100" };
  const [{ connections }, { queues }] = await Promise.all([
    relay.get(session, "connections", query, ConnectionList),
    relay.get(session, "queues", query, QueueList),
  ]);
  return {
    connections: new Map(connections.map((one) => [one.agentDid, one])),
    waiting: new Map(queues.map((one) => [one.recipientAgentDid, one])),
  };
}

/** Says that the proxy is away, and what still works. */
export function awayNote({ deps }: ConsolePages, away: RelayAway): Html {
  return note(
    "bad",
    markup`<b>The proxy at ${deps.config.proxyUrl} ${away.message}.</b> What only it knows is missing below. People, agents, invites and audit work. Look at its process and its log.`,
    { isAlert: true },
  );
}

/** Returns `null` in place of the error of a code. */
export async function orNull<T>(code: ErrorCode, work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof ServiceError && error.code === code) return null;
    throw error;
  }
}

/** What went wrong with a form, with the way out. @throws what is no answer for a person */
export function failed(title: string, error: unknown): Html {
  if (!(error instanceof ServiceError)) throw error;
  return problem(title, `${sentence(error.message)} ${ERRORS[error.code].fix}`, error.code);
}

/** A page that asks before what cannot be undone. */
export function confirmation(
  { base, csrf }: Input,
  { title, mood, text, facts, fields = "", action, label, back, error }: {
    title: Value;
    mood: Mood;
    text: Value;
    facts: Value;
    fields?: Value;
    action: string;
    label: Value;
    back: string;
    error?: Html | undefined;
  },
): Html {
  return markup`<div class="form stack"><h1>${title}</h1>${error}${
    note(mood, text)
  }<section class="card">${facts}</section><form method="post" action="${`${base}/${action}`}" class="stack tight">${csrf}${fields}<div class="row"><button class="${
    mood === "bad" ? "btn danger" : "btn"
  }">${label}</button>${link(`${base}/${back}`, "Keep it", "quiet")}</div></form></div>`;
}

/** The text with a capital and a full stop. */
export function sentence(text: string): string {
  const end = /[.!?]$/.test(text) ? "" : ".";
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${end}`;
}
