/**
 * What the pages of the console share: frame and menu, the names behind DIDs, what the proxy knows of agents, and the
 * question before a change.
 */
import type { BatchedReads } from "../../shared/server/store/batched_reads.ts";
import type { AgentDeps } from "../agents/store.ts";
import type { Suspensions } from "../people/suspensions.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { AgentRecord, HumanRecord } from "../schema/records.ts";
import { askRelay, RelayAway, type RelayDeps } from "./relay.ts";
import type { Asker } from "../callers.ts";
import type { PageView } from "../../shared/page/document.ts";
import { type Html, markup, type Value } from "../../shared/page/html.ts";
import type { PageInput, PageResult, PageRow } from "../../shared/page/page_app.ts";
import * as ui from "../../shared/page/parts.ts";
import { duration, msOf, when } from "../../shared/page/times.ts";
import type { AdminCounts } from "../../shared/protocol/api/admin.ts";
import { type AgentConnection, ConnectionList, type Queue, QueueList } from "../../shared/protocol/api/relay_admin.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { type ErrorCode, ERRORS, ServiceError } from "../../shared/protocol/errors.ts";
import { DAY_MS } from "../../shared/clock.ts";
import type { SharedCount } from "../../shared/server/store/shared_count.ts";
import type { StoreProbe } from "../../shared/server/store/store_probe.ts";

/** Rows of a page of a list. With more, a page takes longer to read from the store and to show. */
export const PAGE_ROWS = 50;

export interface ConsoleDeps extends AgentDeps, RelayDeps {
  counts: SharedCount<AdminCounts>;
  suspensions: Suspensions;
  probe: StoreProbe;
  keyReads: BatchedReads;
}

export type Input = PageInput<Asker>;
export type ConsoleRow = PageRow<ConsoleDeps, Asker>;

/**
 * How often the script of an open page asks for news. With more, the page is out of date for longer; with less, each
 * open page costs the server more.
 */
export const EVERY_SECONDS = 10;
/** An identity that ends sooner than this is marked, so that the admin can warn its owner in time. */
const ENDING_MS = 7 * DAY_MS;
const NAV = ["Overview", "People", "Agents", "Deliveries", "Queues", "Invites", "Audit", "Limits"];

/** Returns a page with the navigation. `current` is the path of its menu entry; `main` are the parts of the page. */
export function framed(
  deps: ConsoleDeps,
  { base, csrf, session }: Input,
  { title, current, main, isLive = false, ...rest }: Pick<PageView, "title" | "kind" | "hasField"> & {
    current: string;
    main: readonly Value[];
    isLive?: boolean;
  },
): { view: PageView } {
  const place = new URL(deps.config.registryUrl).host;
  const body = ui.shell({
    title: "svc console",
    line: place,
    home: `${base}/overview`,
    nav: NAV.map((text) => ({ path: `${base}/${text.toLowerCase()}`, text })),
    current: `${base}/${current}`,
    foot: markup`<small class="soft">${ui.name(session.human.displayName)}, admin</small>${
      ui.button({ text: "Log out", action: `${base}/close`, csrf, look: "bare" })
    }`,
    main: markup`<div class="stack">${main}</div>`,
    lost: "The server does not answer. This page tries again.",
    over: "This session is over. Copy your text, then open the console again with svc admin open.",
  });
  const live = isLive ? { every: EVERY_SECONDS } : undefined;
  return { view: { ...rest, title: `${title} · ${place}`, body, live } };
}

export interface NamedAgent {
  id: string;
  name: string;
  ownerName: string;
}

/** Returns the names of agents by DID. Agents of another registry, or whose record was deleted, have no name. */
export async function agentsByDid(deps: ConsoleDeps, dids: Iterable<string>): Promise<Map<string, NamedAgent>> {
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

export async function peopleByDid(deps: ConsoleDeps, dids: Iterable<string>): Promise<Map<string, HumanRecord>> {
  const ids = [...new Set(dids)].flatMap((did) => {
    const parsed = parseDid(did);
    return parsed?.kind === "human" && parsed.authority === deps.authority ? [parsed.id] : [];
  });
  const found = await Promise.all(ids.map((id) => deps.reads.get<HumanRecord>(KEYS.human(id))));
  return new Map(found.flatMap(({ value }) => value === null ? [] : [[value.did, value]]));
}

export function agentCell(base: string, agents: ReadonlyMap<string, NamedAgent>, did: string | null): Html {
  const agent = did === null ? undefined : agents.get(did);
  if (agent === undefined) return markup`<span class="id">${did === null ? "not known" : shortId(did)}</span>`;
  return markup`${agentLink(base, agent)}<small>${ui.name(agent.ownerName)}</small>`;
}

export function agentLink(base: string, agent: Pick<NamedAgent, "id" | "name">): Html {
  return markup`<a class="name" href="${`${base}/agents/${agent.id}`}">${ui.name(agent.name)}</a>`;
}

export function personLink(base: string, { id, displayName }: Pick<HumanRecord, "id" | "displayName">): Html {
  return markup`<a class="name" href="${`${base}/people/${id}`}">${ui.name(displayName)}</a>`;
}

/** Returns an ID or the ID of a DID. Of a long one it returns only the first six and last four characters. */
export function shortId(text: string): string {
  const id = parseDid(text)?.id ?? text;
  return id.length <= 14 ? id : `${id.slice(0, 6)}…${id.slice(-4)}`;
}

/** Returns the ID at which the previous page of a list ended, if the query holds a valid one. */
export function cursorOf({ query }: Input): string | undefined {
  const cursor = query.get("cursor");
  return isUlid(cursor) ? cursor : undefined;
}

/**
 * Returns the ID that a person typed in place of a name, alone or as part of a DID; `null` for a name. The text is not
 * cut to the length of a name, because a DID may be longer.
 */
export function idIn({ query }: Input, kind: "agent" | "human"): string | null {
  const text = (query.get("q") ?? "").trim(), did = parseDid(text);
  return isUlid(text) ? text : did?.kind === kind ? did.id : null;
}

/** Returns when an identity ends. If the end is near or past, the text is a tag in a colour. */
export function identityEnd({ status, expiresAt }: Pick<AgentRecord, "status" | "expiresAt">, now: number): Value {
  if (status === "revoked") return "–";
  const left = msOf(expiresAt) - now;
  if (left <= 0) return ui.tag("bad", markup`ended ${when(expiresAt, now)}`);
  const text = `in ${duration(left)}`;
  return left > ENDING_MS ? text : ui.tag("warn", text);
}

export interface RelayState {
  connections: Map<string, AgentConnection>;
  /** Waiting messages by the DID of their recipient. */
  waiting: Map<string, Queue>;
}

/** Returns a tag that says whether an agent is connected. `state` is `null` while the proxy does not answer. */
export function connectionTag(state: Pick<RelayState, "connections"> | null, did: string, now: number): Html {
  if (state === null) return ui.tag("", "not known");
  const connection = state.connections.get(did);
  if (connection === undefined) return ui.tag("", "never");
  const { online, connectedAt, disconnectedAt } = connection;
  if (online) return ui.tag("ok", markup`since ${when(connectedAt, now)}`);
  return ui.tag("", disconnectedAt === null ? "offline" : `offline ${duration(now - msOf(disconnectedAt))}`);
}

/** @throws {RelayAway} */
export async function relayStateOf(
  deps: ConsoleDeps,
  { session }: Input,
  ids: readonly string[],
): Promise<RelayState> {
  if (ids.length === 0) return { connections: new Map(), waiting: new Map() };
  const query = { agents: ids.join(","), limit: "100" };
  const [{ connections }, { queues }] = await Promise.all([
    askRelay(deps, session, "connections", query, ConnectionList),
    askRelay(deps, session, "queues", query, QueueList),
  ]);
  return {
    connections: new Map(connections.map((one) => [one.agentDid, one])),
    waiting: new Map(queues.map((one) => [one.recipientAgentDid, one])),
  };
}

/** Returns the result of `work`. If the proxy does not answer, returns the error that says why. */
export async function orAway<T>(work: Promise<T>): Promise<T | RelayAway> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof RelayAway) return error;
    throw error;
  }
}

export function awayNote(deps: ConsoleDeps, away: RelayAway): Html {
  return ui.note(
    "bad",
    markup`<b>The proxy at ${deps.config.proxyUrl} ${away.message}.</b> What only it knows is missing below. People, agents, invites and audit work. Look at its process and its log.`,
    { isAlert: true },
  );
}

/** Returns what went wrong with a form, and how to fix it. @throws any error that is no `ServiceError` */
export function failed(title: string, error: unknown): Html {
  if (!(error instanceof ServiceError)) throw error;
  return ui.problem(title, `${sentence(error.message)} ${ERRORS[error.code].fix}`, error.code);
}

/** By error code, the page for a record that does not exist; `list` is the path of the page that lists such records. */
const NOT_THERE: { [C in ErrorCode]?: { title: string; text: string; list: string } } = {
  AGENT_NOT_FOUND: {
    title: "No such agent",
    text: "It was deleted over 90 days ago, or its ID is wrong.",
    list: "agents",
  },
  PERSON_NOT_FOUND: { title: "No such person", text: "Its ID is wrong.", list: "people" },
};

/** Returns a copy of the row that answers 404, with a link to the list, when the record does not exist. */
export function orNotThere(row: ConsoleRow): ConsoleRow {
  return {
    ...row,
    async render(deps, input) {
      // Any other text counts as no ID, because a long one is no key of the store, which would then refuse the read.
      const id = isUlid(input.params.id) ? input.params.id : "";
      try {
        return await row.render(deps, { ...input, params: { id } });
      } catch (error) {
        const missing = error instanceof ServiceError ? NOT_THERE[error.code] : undefined;
        if (missing === undefined) throw error;
        const { title, text, list } = missing;
        const main = [ui.empty(title, text, ui.link(`${input.base}/${list}`, `All ${list}`))];
        return { ...framed(deps, input, { title, current: list, main }), status: 404 };
      }
    },
  };
}

interface Asked {
  question: ui.Question;
  /** Title of the page, and the path of the record, to which both buttons return. */
  title: string;
  record: string;
  current: string;
  act(): Promise<void>;
}

/** Returns the two rows of an action that asks first: one shows the question, the other acts when it is confirmed. */
export function confirmed(
  path: string,
  not: string,
  ask: (deps: ConsoleDeps, input: Input) => Asked | PageResult | Promise<Asked | PageResult>,
): ConsoleRow[] {
  const page = (deps: ConsoleDeps, input: Input, asked: Asked, error?: Html) => {
    const { question, title, record, current } = asked, { base, csrf } = input;
    const action = `${base}/${path.replace(":id", input.params.id ?? "")}`;
    const main = [ui.confirmation(question, { action, csrf, back: `${base}/${record}`, error })];
    return framed(deps, input, { title, current, main, hasField: true });
  };
  return (["GET", "POST"] as const).map((method) => ({
    method,
    path,
    async render(deps, input) {
      const asked = await ask(deps, input);
      if (!("question" in asked)) return asked;
      if (method === "GET") return page(deps, input, asked);
      try {
        await asked.act();
      } catch (error) {
        return page(deps, input, asked, failed(not, error));
      }
      return { to: asked.record };
    },
  }));
}

/** Returns the text with a capital letter and a full stop. */
export function sentence(text: string): string {
  const end = /[.!?]$/.test(text) ? "" : ".";
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${end}`;
}
