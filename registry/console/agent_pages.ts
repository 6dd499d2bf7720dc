/** The agents of all people: a list with filters, one agent, revoke, end its session. */
import {
  agentLink,
  awayNote,
  confirmation,
  connectionTag,
  type ConsolePages,
  type ConsoleRow,
  failed,
  framed,
  identityEnd,
  type Input,
  orNull,
  PAGE_ROWS,
  type RelayState,
  relayStateOf,
  shortId,
} from "./frame.ts";
import { reasonCell, todoOf } from "./overview_page.ts";
import { RelayAway } from "./relay.ts";
import { deleteAgent } from "../agents/store.ts";
import { type AgentWithSession, listAllAgents, nearestAgent, readAgent } from "../people/store.ts";
import { sessionState } from "../sessions/session_rules.ts";
import { revokeSession } from "../sessions/store.ts";
import { type Html, markup, type Value } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import {
  card,
  choice,
  counted,
  empty,
  field,
  filter,
  head,
  lines,
  link,
  name,
  number,
  pager,
  type Row,
  table,
  tag,
} from "../../shared/page/parts.ts";
import { duration, when } from "../../shared/page/times.ts";
import { ConnectionList, type Refusal, RefusalList } from "../../shared/protocol/api/relay_admin.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseIso } from "../../shared/protocol/time.ts";
import type { Page } from "../../shared/server/store/pages.ts";

const REFUSALS_SHOWN = 10;

export const agentRows: readonly ConsoleRow[] = [
  { method: "GET", path: "agents", render: agentsPage },
  { method: "GET", path: "agents/:id", render: agentPage },
  { method: "GET", path: "agents/:id/revoke", render: revokePage },
  { method: "POST", path: "agents/:id/revoke", render: revoke },
  { method: "GET", path: "agents/:id/end", render: endPage },
  { method: "POST", path: "agents/:id/end", render: end },
];

interface Wanted {
  q: string;
  status: "active" | "revoked" | undefined;
  online: "true" | "false" | undefined;
  cursor: string | undefined;
}

async function agentsPage(pages: ConsolePages, input: Input): Promise<PageResult> {
  const { deps } = pages, { query, session, base } = input;
  const wanted: Wanted = {
    q: (query.get("q") ?? "").trim().slice(0, LIMITS.displayName),
    status: query.get("status") === "revoked" ? "revoked" : query.get("status") === "all" ? undefined : "active",
    online: query.get("online") === "true" ? "true" : query.get("online") === "false" ? "false" : undefined,
    cursor: query.get("cursor") ?? undefined,
  };
  const id = isUlid(wanted.q) ? wanted.q : parseDid(wanted.q)?.kind === "agent" ? parseDid(wanted.q)?.id : undefined;
  if (id !== undefined) return { to: `agents/${id}` };
  const counts = await deps.counts.current();
  let away: RelayAway | null = null;
  const orAway = <T>(error: unknown, instead: T): T => {
    if (!(error instanceof RelayAway)) throw error;
    away = error;
    return instead;
  };
  const { items, nextCursor } = await pageOf(pages, input, wanted).catch((error) =>
    orAway(error, { items: [], nextCursor: null })
  );
  const state = away !== null
    ? null
    : await relayStateOf(pages, session, items.map(({ agent }) => agent.id)).catch((error) => orAway(error, null));
  const now = deps.clock.now();
  const total = counts.agents.active + counts.agents.revoked;
  const form = filter([
    markup`<div class="wide">${field({ id: "q", label: "Name or ID", value: wanted.q, type: "search" })}</div>`,
    choice("status", "Status", [["active", "Active"], ["revoked", "Revoked"], ["all", "All"]], wanted.status ?? "all"),
    choice("online", "Connection", [["", "Any"], ["true", "Online"], ["false", "Offline"]], wanted.online ?? ""),
  ]);
  const line = `${counted(counts.agents.active, "agent")} of ${
    counted(counts.people.active, "person").replace("persons", "people")
  }, newest first`;
  const older = nextCursor === null ? null : searchOf({ ...wanted, cursor: nextCursor });
  const main = total === 0
    ? markup`<div class="stack">${head("Agents")}${
      empty(
        "No agents yet",
        "Invite a person: the link that you send makes an account and a first agent with one command.",
        link(`${base}/invites`, "Invite a person"),
      )
    }</div>`
    : markup`<div class="stack">${head("Agents", line)}${form}${away !== null && awayNote(pages, away)}${
      items.length > 0
        ? markup`${agentTable(base, items, state, now)}${pager(`${PAGE_ROWS} on a page`, older)}`
        : older !== null
        ? markup`<p class="soft">None among these ${number(LIMITS.filteredPageReads)}.</p>${
          pager("Older ones follow", older)
        }`
        : away === null && await nothingFound(pages, base, wanted)
    }</div>`;
  return framed(pages, input, { title: "Agents", current: "agents", main, hasField: true });
}

/** With a filter by connection the proxy names the agents; else the registry does. @throws {RelayAway} */
async function pageOf(
  { deps, relay }: ConsolePages,
  { session }: Input,
  wanted: Wanted,
): Promise<Page<AgentWithSession>> {
  const { q, status, online, cursor } = wanted;
  if (online === undefined) {
    const own = cursor !== undefined && isUlid(cursor) ? cursor : undefined;
    return await listAllAgents(deps, { name: q === "" ? undefined : q, status, limit: PAGE_ROWS, cursor: own });
  }
  const query = { online, limit: String(PAGE_ROWS), ...cursor === undefined ? {} : { cursor } };
  const { connections, pagination } = await relay.get(session, "connections", query, ConnectionList);
  const ids = connections.flatMap(({ agentDid }) => parseDid(agentDid)?.id ?? []);
  const found = await Promise.all(ids.map((id) => orNull("AGENT_NOT_FOUND", readAgent(deps, id))));
  const items = found.filter((one) => one !== null).filter(({ agent }) =>
    (status === undefined || agent.status === status) && agent.name.toLowerCase().startsWith(q.toLowerCase())
  );
  return { items, nextCursor: pagination.nextCursor };
}

function searchOf({ q, status, online, cursor }: Wanted): string {
  return `?${new URLSearchParams({ q, status: status ?? "all", online: online ?? "", cursor: cursor ?? "" })}`;
}

async function nothingFound({ deps }: ConsolePages, base: string, { q }: Wanted): Promise<Html> {
  const all = link(`${base}/agents?status=all`, "Show all", "quiet");
  if (q === "") return empty("No such agent", "No agent fits the filter.", all);
  const like = await nearestAgent(deps, q);
  return empty(
    markup`No agent is called “${q}”`,
    markup`The newest ${number(LIMITS.filteredPageReads)} agents were searched.${
      like !== null &&
      markup` Did you mean <a href="${`${base}/agents?status=all&q=${encodeURIComponent(like)}`}">${name(like)}</a>?`
    }`,
    all,
  );
}

/** @param state `null`: the proxy has not answered */
export function agentTable(
  base: string,
  agents: readonly AgentWithSession[],
  state: RelayState | null,
  now: number,
): Html {
  return table({
    caption: "Agents",
    columns: [
      { text: "Agent" },
      { text: "Owner" },
      { text: "Runtime" },
      { text: "Connection" },
      { text: "Waiting", isNumber: true },
      { text: "Identity ends" },
    ],
    rows: agents.map(({ agent, ownerName }): Row => ({
      cells: [
        markup`${agentLink(base, agent)}<small class="id">${shortId(agent.id)}</small>`,
        name(ownerName),
        markup`<span class="nb">${agent.framework}</span>`,
        agent.status === "revoked"
          ? tag("bad", markup`revoked ${when(parseIso(agent.updatedAt) ?? now, now)}`)
          : connectionTag(state === null ? null : state.connections.get(agent.did), now),
        state?.waiting.get(agent.did)?.messages,
        markup`<span class="nb">${identityEnd(agent, now)}</span>`,
      ],
    })),
  });
}

async function agentPage(pages: ConsolePages, input: Input): Promise<PageResult> {
  const found = await agentOf(pages, input);
  if (found === null) return notThere(pages, input);
  const { deps, relay } = pages, { base, session } = input;
  const { agent, ownerName, session: auth } = found;
  const now = deps.clock.now();
  let away: RelayAway | null = null;
  const [state, refusals] = await Promise.all([
    relayStateOf(pages, session, [agent.id]),
    relay.get(session, "refusals", { agentDid: agent.did, limit: String(REFUSALS_SHOWN) }, RefusalList),
  ]).catch((error) => {
    if (!(error instanceof RelayAway)) throw error;
    away = error;
    return [null, null] as const;
  });
  const waiting = state?.waiting.get(agent.did);
  const isActive = agent.status === "active";
  const actions = isActive &&
    markup`<div class="row">${
      auth?.status === "active" && link(`${base}/agents/${agent.id}/end`, "End session…", "quiet")
    }${link(`${base}/agents/${agent.id}/revoke`, "Revoke…", "quiet")}</div>`;
  const main = markup`<div class="stack">${
    head(
      name(agent.name),
      markup`Agent of <a href="${`${base}/people/${agent.ownerId}`}">${name(ownerName)}</a>`,
      actions,
    )
  }${away !== null && awayNote(pages, away)}<div class="two">${
    card(
      "Identity",
      lines([
        ["Status", isActive ? tag("ok", "active") : tag("bad", "revoked")],
        ["DID", markup`<span class="id">${agent.did}</span>`],
        ["Runtime", agent.framework],
        ["Registered", when(parseIso(agent.createdAt) ?? now, now)],
        ["Identity ends", identityEnd(agent, now)],
      ]),
    )
  }<div class="stack">${
    card(
      "Connection and queue",
      lines([
        ["Connected", connectionTag(state === null ? null : state.connections.get(agent.did), now)],
        [
          "Waiting",
          state === null
            ? "not known"
            : waiting === undefined
            ? "no message"
            : `${counted(waiting.messages, "message")} of ${counted(waiting.senders, "sender")}, the oldest ends in ${
              duration(Math.max(0, (parseIso(waiting.oldestExpiresAt) ?? now) - now))
            }`,
        ],
      ]),
    )
  }${
    card(
      "Session",
      auth === null ? markup`<p class="small soft">No longer kept.</p>` : lines([
        ["Status", sessionTag(sessionState(auth, now))],
        ["Refreshed", auth.refreshedAtSeconds === 0 ? "not yet" : when(auth.refreshedAtSeconds * 1000, now)],
        ["Ends", when(auth.refreshExpiresAt, now)],
      ]),
    )
  }</div></div>${refusals !== null && refusalsOf(refusals.refusals, agent.name, now)}</div>`;
  return framed(pages, input, { title: agent.name, current: "agents", main });
}

function sessionTag(status: "active" | "revoked" | "expired"): Html {
  return status === "active" ? tag("ok", "active") : tag("bad", status === "revoked" ? "ended" : "expired");
}

function refusalsOf(refusals: readonly Refusal[], agent: string, now: number): Html {
  return markup`<section class="stack tight"><h2>Its latest refusals</h2>${
    refusals.length === 0 ? markup`<p class="small soft">None since this instance started.</p>` : table({
      caption: "Latest refusals of this agent",
      columns: [{ text: "Time, UTC" }, { text: "Reason" }, { text: "What to do" }, { text: "Request" }],
      rows: refusals.map((refusal): Row => ({
        cells: [
          when(parseIso(refusal.at) ?? now, now),
          reasonCell(refusal.code),
          markup`<small>${todoOf(refusal, agent)}</small>`,
          markup`<span class="id">${refusal.requestId}</span>`,
        ],
      })),
    })
  }</section>`;
}

async function agentOf({ deps }: ConsolePages, { params }: Input): Promise<AgentWithSession | null> {
  return await orNull("AGENT_NOT_FOUND", readAgent(deps, params.id ?? ""));
}

function notThere(pages: ConsolePages, input: Input): PageResult {
  const main = empty(
    "No such agent",
    "It was deleted over 90 days ago, or its ID is wrong.",
    link(`${input.base}/agents`, "All agents"),
  );
  return { ...framed(pages, input, { title: "No such agent", current: "agents", main }), status: 404 };
}

async function revokePage(pages: ConsolePages, input: Input, error?: Html): Promise<PageResult> {
  const found = await agentOf(pages, input);
  if (found === null) return notThere(pages, input);
  const { agent } = found;
  return confirmPage(pages, input, found, {
    title: markup`Revoke ${name(agent.name)}?`,
    text:
      "This is permanent. The agent can no longer send or receive, its pairs end, and messages that wait for it are dropped.",
    label: markup`Revoke ${name(agent.name)}`,
    action: "revoke",
    error,
  });
}

async function endPage(pages: ConsolePages, input: Input, error?: Html): Promise<PageResult> {
  const found = await agentOf(pages, input);
  if (found === null) return notThere(pages, input);
  return confirmPage(pages, input, found, {
    title: markup`End the session of ${name(found.agent.name)}?`,
    text: "Its connector is disconnected and cannot come back until its owner issues a new identity for it.",
    label: "End session",
    action: "end",
    error,
  });
}

async function confirmPage(
  pages: ConsolePages,
  input: Input,
  { agent, ownerName }: AgentWithSession,
  { title, text, label, action, error }: {
    title: Html;
    text: Value;
    label: Value;
    action: string;
    error?: Html | undefined;
  },
): Promise<PageResult> {
  const state = await relayStateOf(pages, input.session, [agent.id]).catch(() => null);
  const main = confirmation(input, {
    title,
    mood: "bad",
    text,
    facts: lines([
      ["Agent", name(agent.name)],
      ["Owner", name(ownerName)],
      ["DID", markup`<span class="id">${agent.did}</span>`],
      [
        "Connected",
        connectionTag(state === null ? null : state.connections.get(agent.did), pages.deps.clock.now()),
      ],
    ]),
    action: `agents/${agent.id}/${action}`,
    label,
    back: `agents/${agent.id}`,
    error,
  });
  return framed(pages, input, { title: agent.name, current: "agents", main, hasField: true });
}

async function revoke(pages: ConsolePages, input: Input): Promise<PageResult> {
  const { human, requestId } = input.session;
  const found = await agentOf(pages, input);
  if (found === null) return notThere(pages, input);
  try {
    await deleteAgent(pages.deps, human, found.agent, requestId);
  } catch (error) {
    return await revokePage(pages, input, failed("Not revoked.", error));
  }
  return { to: `agents/${found.agent.id}` };
}

async function end(pages: ConsolePages, input: Input): Promise<PageResult> {
  const { human, requestId } = input.session;
  const found = await agentOf(pages, input);
  if (found === null) return notThere(pages, input);
  const { id, did } = found.agent;
  try {
    await revokeSession(pages.deps, id, { event: "session.revoked", actor: human.did, subject: did, requestId });
  } catch (error) {
    return await endPage(pages, input, failed("Not ended.", error));
  }
  return { to: `agents/${id}` };
}
