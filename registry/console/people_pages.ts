/** The people: the list with its filters, one person with keys and agents, and the buttons to suspend or restore. */
import { agentTable } from "./agent_pages.ts";
import {
  type ConsoleDeps,
  cursorOf,
  failed,
  framed,
  idIn,
  type Input,
  orAway,
  PAGE_ROWS,
  personLink,
  relayStateOf,
  shortId,
} from "./frame.ts";
import { RelayAway } from "./relay.ts";
import { lastUseOf, listAllAgents, listPeople, nearestPerson, readPerson } from "../people/store.ts";
import { quotasOf } from "../quota.ts";
import type { HumanRecord } from "../schema/records.ts";
import { type Html, markup } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import * as ui from "../../shared/page/parts.ts";
import { when } from "../../shared/page/times.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseReason } from "../../shared/protocol/names.ts";

const STATUSES = ["active", "suspended"] as const;

export async function peoplePage(deps: ConsoleDeps, input: Input): Promise<PageResult> {
  const { query, base } = input;
  const q = (query.get("q") ?? "").trim().slice(0, LIMITS.displayName);
  const id = idIn(input, "human");
  if (id !== null) return { to: `people/${id}` };
  const status = STATUSES.find((one) => one === query.get("status"));
  const wanted = { name: q || undefined, status, limit: PAGE_ROWS, cursor: cursorOf(input) };
  const [{ people }, { items, nextCursor }] = await Promise.all([deps.counts.current(), listPeople(deps, wanted)]);
  const [quotas, lastUses] = await Promise.all([
    quotasOf(deps, items.map(({ id }) => id)),
    Promise.all(items.map(({ id }) => lastUseOf(deps, id))),
  ]);
  const now = deps.clock.now();
  const older = nextCursor === null ? null : `?${new URLSearchParams({ q, status: status ?? "", cursor: nextCursor })}`;
  const rows = items.map((human, i) => ({
    cells: [
      markup`${personLink(base, human)}<small class="id">${shortId(human.id)}</small>`,
      human.role,
      statusTag(human),
      ui.number(quotas[i]?.agents ?? 0),
      lastUse(lastUses[i], now),
      when(human.createdAt, now),
    ],
  }));
  const columns = ["Person", "Role", "Status", { number: "Agents" }, "Last use", "Since"];
  const main = [
    ui.head(
      "People",
      `${ui.counted(people.active + people.suspended, "account")}, ${
        ui.number(people.suspended)
      } suspended, newest first`,
      ui.link(`${base}/invites`, "Invite a person"),
    ),
    ui.filter([
      markup`<div class="wide">${ui.field({ id: "q", label: "Name or ID", value: q, type: "search" })}</div>`,
      ui.choice("status", "Status", [["", "All"], ["active", "Active"], ["suspended", "Suspended"]], status ?? ""),
    ]),
    rows.length === 0 && older === null
      ? await nothingFound(deps, base, q)
      : [ui.table({ caption: "People", columns, rows }), ui.pager(`${PAGE_ROWS} on a page`, older)],
  ];
  return framed(deps, input, { title: "People", current: "people", main, hasField: true });
}

async function nothingFound(deps: ConsoleDeps, base: string, q: string): Promise<Html> {
  const like = q === "" ? null : await nearestPerson(deps, q);
  const suggestion = like !== null &&
    markup` Did you mean <a href="${`${base}/people?q=${encodeURIComponent(like)}`}">${ui.name(like)}</a>?`;
  const all = ui.link(`${base}/people`, "Show all", "quiet");
  const text = q === "" ? "No person fits the filter." : markup`No name begins like this.${suggestion}`;
  return ui.empty("No such person", text, all);
}

function statusTag({ status }: Pick<HumanRecord, "status">): Html {
  return ui.tag(status === "active" ? "ok" : "bad", status);
}

function lastUse(at: string | null | undefined, now: number) {
  return at ? when(at, now) : "never";
}

export async function personPage(deps: ConsoleDeps, input: Input, error?: Html): Promise<PageResult> {
  const { base, csrf, params } = input;
  const { human, apiKeys, agents, lastUsedAt } = await readPerson(deps, params.id ?? "");
  const { items, nextCursor } = await listAllAgents(deps, { ownerId: human.id, limit: PAGE_ROWS });
  const state = await orAway(relayStateOf(deps, input, items.map(({ agent }) => agent.id)));
  const now = deps.clock.now(), path = `${base}/people/${human.id}`;
  const action = human.status === "active"
    ? ui.link(`${path}/suspend`, "Suspend…", "quiet")
    : ui.button({ text: "Restore", action: `${path}/restore`, csrf });
  const account = ui.lines([
    ["Status", markup`${statusTag(human)} ${human.suspendedAt !== undefined && when(human.suspendedAt, now)}`],
    ["DID", markup`<span class="id">${human.did}</span>`],
    ["Since", when(human.createdAt, now)],
    ["Last use", lastUse(lastUsedAt, now)],
    ["Agents", `${ui.number(agents.active)} active, ${ui.number(agents.revoked)} revoked`],
  ]);
  const keys = ui.table({
    caption: "API keys, without their secrets",
    columns: ["Name", "Status", "Last use", "Since"],
    rows: apiKeys.map((key) => ({
      cells: [
        markup`${ui.name(key.name)}<small class="id">${shortId(key.id)}</small>`,
        ui.tag(key.status === "active" ? "ok" : "", key.status),
        lastUse(key.lastUsedAt, now),
        when(key.createdAt, now),
      ],
    })),
  });
  const owned = items.length === 0
    ? markup`<p class="small soft">None.</p>`
    : markup`${agentTable(base, items, state instanceof RelayAway ? null : state, now)}${
      nextCursor !== null && markup`<p class="small soft">The newest ${PAGE_ROWS}.</p>`
    }`;
  const isAdmin = human.role === "admin";
  const main = [
    ui.head(ui.name(human.displayName), isAdmin ? "Admin" : "User", isAdmin ? null : action),
    error,
    markup`<div class="two">${ui.card("Account", account)}${ui.section("API keys", keys)}</div>`,
    ui.section("Agents", owned),
  ];
  return framed(deps, input, { title: human.displayName, current: "people", main });
}

export async function askSuspend(deps: ConsoleDeps, input: Input) {
  const { human, agents } = await readPerson(deps, input.params.id ?? "");
  const facts = ui.lines([
    ["Person", ui.name(human.displayName)],
    ["DID", markup`<span class="id">${human.did}</span>`],
    ["Agents", `${ui.number(agents.active)} active`],
  ]);
  const given = (input.form.get("reason") ?? "").trim();
  const question = {
    title: markup`Suspend ${ui.name(human.displayName)}?`,
    text: "The person's API keys are refused and the sessions of the agents end, until you restore the account.",
    facts: ui.card("The person", facts),
    fields: ui.field({
      id: "reason",
      label: markup`Reason, for the audit log <span class="soft">(optional)</span>`,
      value: given,
      maxLength: LIMITS.reason,
    }),
    label: markup`Suspend ${ui.name(human.displayName)}`,
  };
  const act = () => change(deps, input, "suspended", given);
  return { question, title: human.displayName, record: `people/${human.id}`, current: "people", act };
}

export async function restore(deps: ConsoleDeps, input: Input): Promise<PageResult> {
  try {
    await change(deps, input, "active");
  } catch (error) {
    return await personPage(deps, input, failed("Not done.", error));
  }
  return { to: `people/${input.params.id}` };
}

/**
 * Suspends or restores the person.
 *
 * @throws {ServiceError} `ADMIN_INVALID_BODY` when `given` is not a valid reason for the audit log; `PERSON_NOT_FOUND`,
 * `ADMIN_SUSPEND_FORBIDDEN`
 */
async function change(
  deps: ConsoleDeps,
  { session, params }: Input,
  wanted: HumanRecord["status"],
  given = "",
): Promise<void> {
  const reason = given === "" ? undefined : parseReason(given);
  if (reason === null) {
    const message = `a reason has at most ${LIMITS.reason} characters of text`;
    throw new ServiceError("ADMIN_INVALID_BODY", { message });
  }
  await deps.suspensions.change(params.id ?? "", { wanted, by: session, reason });
}
