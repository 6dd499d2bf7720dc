/** The agents of all people: the list with its filters, one agent, and the buttons to revoke it or end its session. */
import {
  agentLink,
  awayNote,
  connectionTag,
  type ConsoleDeps,
  framed,
  identityEnd,
  idIn,
  type Input,
  orAway,
  PAGE_ROWS,
  personLink,
  type RelayState,
  relayStateOf,
  shortId,
} from "./frame.ts";
import { latestRefusals } from "./refusals.ts";
import { askRelay, RelayAway } from "./relay.ts";
import { deleteAgent, findAgent } from "../agents/store.ts";
import type { Asker } from "../callers.ts";
import {
  type AgentWithSession,
  beginsWith,
  listAllAgents,
  nearestAgent,
  readAgent,
  withOwners,
} from "../people/store.ts";
import type { AgentRecord } from "../schema/records.ts";
import type { RegistryStore } from "../store_deps.ts";
import { shownState } from "../sessions/session_rules.ts";
import { revokeSession } from "../sessions/store.ts";
import { type Html, markup } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import * as ui from "../../shared/page/parts.ts";
import { duration, msOf, when } from "../../shared/page/times.ts";
import { ConnectionList, RefusalList } from "../../shared/protocol/api/relay_admin.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Page } from "../../shared/server/store/pages.ts";

const REFUSALS_SHOWN = 10;

export const askRevoke = askBefore(deleteAgent, (name) => ({
  title: markup`Revoke ${name}?`,
  text:
    "This is permanent. The agent can no longer send or receive, its pairs end, and messages that wait for it are dropped.",
  label: markup`Revoke ${name}`,
}));

export const askEnd = askBefore(revokeSession, (name) => ({
  title: markup`End the session of ${name}?`,
  text: "Its connector is disconnected and cannot come back until its owner issues a new identity for it.",
  label: "End session",
}));

type Wanted = Record<"q" | "status" | "online" | "cursor", string>;

export async function agentsPage(deps: ConsoleDeps, input: Input): Promise<PageResult> {
  const { query, base } = input;
  const text = (key: string, otherwise = "") => (query.get(key) ?? otherwise).trim().slice(0, LIMITS.displayName);
  const wanted: Wanted = {
    q: text("q"),
    status: text("status", "active"),
    online: text("online"),
    cursor: query.get("cursor") ?? "",
  };
  const id = idIn(input, "agent");
  if (id !== null) return { to: `agents/${id}` };
  const [counts, found] = await Promise.all([deps.counts.current(), orAway(pageOf(deps, input, wanted))]);
  const { items, nextCursor } = found instanceof RelayAway ? { items: [], nextCursor: null } : found;
  const state = await orAway(relayStateOf(deps, input, items.map(({ agent }) => agent.id)));
  const away = [found, state].find((one) => one instanceof RelayAway);
  const { agents, people } = counts;
  if (agents.active + agents.revoked === 0 && items.length === 0) {
    const text = "Invite a person: the link that you send makes an account and a first agent with one command.";
    const way = ui.link(`${base}/invites`, "Invite a person");
    const main = [ui.head("Agents"), ui.empty("No agents yet", text, way)];
    return framed(deps, input, { title: "Agents", current: "agents", main });
  }
  const older = nextCursor === null ? null : `?${new URLSearchParams({ ...wanted, cursor: nextCursor })}`;
  const rows = agentTable(base, items, state instanceof RelayAway ? null : state, deps.clock.now());
  const main = [
    ui.head(
      "Agents",
      `${ui.counted(agents.active, "agent")} of ${ui.counted(people.active, "person", "people")}, newest first`,
    ),
    ui.filter([
      markup`<div class="wide">${ui.field({ id: "q", label: "Name or ID", value: wanted.q, type: "search" })}</div>`,
      ui.choice("status", "Status", [["active", "Active"], ["revoked", "Revoked"], ["all", "All"]], wanted.status),
      ui.choice("online", "Connection", [["", "Any"], ["true", "Online"], ["false", "Offline"]], wanted.online),
    ]),
    away && awayNote(deps, away),
    items.length > 0
      ? [rows, ui.pager(`${PAGE_ROWS} on a page`, older)]
      : older !== null
      ? ui.pager("None among those searched so far; more follow", older)
      : away === undefined && await nothingFound(deps, base, wanted.q),
  ];
  return framed(deps, input, { title: "Agents", current: "agents", main, hasField: true });
}

/**
 * Asks the proxy for the agents when the filter is by connection, because only the proxy knows who is connected;
 * otherwise reads the registry's records.
 *
 * @throws {RelayAway}
 */
async function pageOf(
  deps: ConsoleDeps,
  { session }: Input,
  { q, status, online, cursor }: Wanted,
): Promise<Page<AgentWithSession>> {
  const only = status === "active" || status === "revoked" ? status : undefined;
  if (online !== "true" && online !== "false") {
    const own = isUlid(cursor) ? cursor : undefined;
    return await listAllAgents(deps, { name: q || undefined, status: only, limit: PAGE_ROWS, cursor: own });
  }
  const query = { online, limit: String(PAGE_ROWS), ...parseDid(cursor)?.kind === "agent" ? { cursor } : {} };
  const { connections, pagination } = await askRelay(deps, session, "connections", query, ConnectionList);
  const ids = connections.flatMap(({ agentDid }) => parseDid(agentDid)?.id ?? []);
  const begins = beginsWith(q);
  const found = (await Promise.all(ids.map((id) => findAgent(deps, id)))).filter((agent) => agent !== null);
  const fitting = found.filter(({ status, name }) => (only === undefined || status === only) && begins(name));
  return { items: await withOwners(deps, fitting), nextCursor: pagination.nextCursor };
}

async function nothingFound(deps: ConsoleDeps, base: string, q: string): Promise<Html> {
  const all = ui.link(`${base}/agents?status=all`, "Show all", "quiet");
  if (q === "") return ui.empty("No such agent", "No agent fits the filter.", all);
  const like = await nearestAgent(deps, q);
  const suggestion = like !== null &&
    markup` Did you mean <a href="${`${base}/agents?status=all&q=${encodeURIComponent(like)}`}">${ui.name(like)}</a>?`;
  return ui.empty(
    markup`No agent called “${q}” fits the filter`,
    markup`The newest ${ui.number(LIMITS.filteredPageReads)} agents were searched.${suggestion}`,
    all,
  );
}

/** @param state connections and waiting messages; `null` if the proxy has not answered */
export function agentTable(
  base: string,
  agents: readonly AgentWithSession[],
  state: RelayState | null,
  now: number,
): Html {
  return ui.table({
    caption: "Agents",
    columns: ["Agent", "Owner", "Runtime", "Connection", { number: "Waiting" }, "Identity ends"],
    rows: agents.map(({ agent, ownerName }) => ({
      cells: [
        markup`${agentLink(base, agent)}<small class="id">${shortId(agent.id)}</small>`,
        ui.name(ownerName),
        markup`<span class="nb">${agent.framework}</span>`,
        agent.status === "revoked"
          ? ui.tag("bad", markup`revoked ${when(agent.updatedAt, now)}`)
          : connectionTag(state, agent.did, now),
        state?.waiting.get(agent.did)?.messages,
        markup`<span class="nb">${identityEnd(agent, now)}</span>`,
      ],
    })),
  });
}

export async function agentPage(deps: ConsoleDeps, input: Input): Promise<PageResult> {
  const { base, session, params } = input;
  const { agent, ownerName, session: auth } = await readAgent(deps, params.id ?? "");
  const now = deps.clock.now();
  const asked = await orAway(Promise.all([
    relayStateOf(deps, input, [agent.id]),
    askRelay(deps, session, "refusals", { agentDid: agent.did, limit: String(REFUSALS_SHOWN) }, RefusalList),
  ]));
  const [state, refusals] = asked instanceof RelayAway ? [null, null] : asked;
  const waiting = state?.waiting.get(agent.did);
  const queue = waiting === undefined
    ? "no message"
    : `${ui.counted(waiting.messages, "message")} of ${ui.counted(waiting.senders, "sender")}, the oldest ends in ${
      duration(msOf(waiting.oldestExpiresAt) - now)
    }`;
  const isActive = agent.status === "active";
  const sessionLines = auth !== null && ui.lines([
    ["Status", SESSION_TAGS[shownState(auth, now)]],
    ["Refreshed", auth.refreshedAtSeconds === 0 ? "not yet" : when(auth.refreshedAtSeconds * 1000, now)],
    ["Valid until", when(auth.revokedAt ?? auth.refreshExpiresAt, now)],
  ]);
  const main = [
    ui.head(
      ui.name(agent.name),
      markup`Agent of ${personLink(base, { id: agent.ownerId, displayName: ownerName })}`,
      isActive &&
        markup`<div class="row">${
          auth?.status === "active" && ui.link(`${base}/agents/${agent.id}/end`, "End session…", "quiet")
        }${ui.link(`${base}/agents/${agent.id}/revoke`, "Revoke…", "quiet")}</div>`,
    ),
    asked instanceof RelayAway && awayNote(deps, asked),
    markup`<div class="two">${
      ui.card(
        "Identity",
        ui.lines([
          ["Status", isActive ? ui.tag("ok", "active") : ui.tag("bad", "revoked")],
          ["DID", markup`<span class="id">${agent.did}</span>`],
          ["Runtime", agent.framework],
          ["Registered", when(agent.createdAt, now)],
          ["Identity ends", identityEnd(agent, now)],
        ]),
      )
    }<div class="stack">${
      ui.card(
        "Connection and queue",
        ui.lines([
          ["Connected", connectionTag(state, agent.did, now)],
          ["Waiting", state === null ? "not known" : queue],
        ]),
      )
    }${ui.card("Session", sessionLines || markup`<p class="small soft">No longer kept.</p>`)}</div></div>`,
    refusals !== null && latestRefusals(refusals.refusals, agent.name, now),
  ];
  return framed(deps, input, { title: agent.name, current: "agents", main });
}

const SESSION_TAGS = {
  active: ui.tag("ok", "active"),
  revoked: ui.tag("bad", "ended"),
  expired: ui.tag("bad", "expired"),
  suspended: ui.tag("bad", "suspended with its owner"),
} as const;

/** Returns the function `ask` for `confirmed`: it asks the admin about an agent, and does `work` after a yes. */
function askBefore(
  work: (deps: RegistryStore, by: Asker, agent: AgentRecord) => Promise<void>,
  questionOf: (name: Html) => ui.Question,
) {
  return async (deps: ConsoleDeps, input: Input) => {
    const { agent, ownerName } = await readAgent(deps, input.params.id ?? "");
    const state = await orAway(relayStateOf(deps, input, [agent.id]));
    const name = ui.name(agent.name);
    const facts = ui.card(
      "The agent",
      ui.lines([
        ["Agent", name],
        ["Owner", ui.name(ownerName)],
        ["DID", markup`<span class="id">${agent.did}</span>`],
        ["Connected", connectionTag(state instanceof RelayAway ? null : state, agent.did, deps.clock.now())],
      ]),
    );
    const question = { ...questionOf(name), facts }, act = () => work(deps, input.session, agent);
    return { question, title: agent.name, record: `agents/${agent.id}`, current: "agents", act };
  };
}
