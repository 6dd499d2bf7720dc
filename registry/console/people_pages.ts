/** The people: a list with filters, one person with its keys and agents, suspend, restore. */
import { agentTable } from "./agent_pages.ts";
import {
  confirmation,
  type ConsolePages,
  type ConsoleRow,
  failed,
  framed,
  type Input,
  orNull,
  PAGE_ROWS,
  personLink,
  relayStateOf,
  shortId,
} from "./frame.ts";
import { lastUseOf, listAllAgents, listPeople, readPerson } from "../people/store.ts";
import { quotasOf } from "../quota.ts";
import type { HumanRecord } from "../schema/records.ts";
import { type Html, markup } from "../../shared/page/html.ts";
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
  problem,
  type Row,
  table,
  tag,
} from "../../shared/page/parts.ts";
import { when } from "../../shared/page/times.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseReason } from "../../shared/protocol/names.ts";
import { parseIso } from "../../shared/protocol/time.ts";

export const peopleRows: readonly ConsoleRow[] = [
  { method: "GET", path: "people", render: peoplePage },
  { method: "GET", path: "people/:id", render: personPage },
  { method: "GET", path: "people/:id/suspend", render: suspendPage },
  { method: "POST", path: "people/:id/suspend", render: (pages, input) => change(pages, input, "suspended") },
  { method: "POST", path: "people/:id/restore", render: (pages, input) => change(pages, input, "active") },
];

async function peoplePage(pages: ConsolePages, input: Input): Promise<PageResult> {
  const { deps } = pages, { query, base } = input;
  const q = (query.get("q") ?? "").trim().slice(0, LIMITS.displayName);
  const id = isUlid(q) ? q : parseDid(q)?.kind === "human" ? parseDid(q)?.id : undefined;
  if (id !== undefined) return { to: `people/${id}` };
  const status = query.get("status") === "suspended"
    ? "suspended"
    : query.get("status") === "active"
    ? "active"
    : undefined;
  const cursor = query.get("cursor") ?? "";
  const [counts, { items, nextCursor }] = await Promise.all([
    deps.counts.current(),
    listPeople(deps, {
      name: q === "" ? undefined : q,
      status,
      limit: PAGE_ROWS,
      cursor: isUlid(cursor) ? cursor : undefined,
    }),
  ]);
  const [quotas, lastUses] = await Promise.all([
    quotasOf(deps, items.map(({ id }) => id)),
    Promise.all(items.map(({ id }) => lastUseOf(deps, id))),
  ]);
  const now = deps.clock.now();
  const older = nextCursor === null ? null : `?${new URLSearchParams({ q, status: status ?? "", cursor: nextCursor })}`;
  const rows = items.map((human, i): Row => ({
    cells: [
      markup`${personLink(base, human)}<small class="id">${shortId(human.id)}</small>`,
      human.role === "admin" ? "admin" : "user",
      statusTag(human),
      number(quotas[i]?.agents ?? 0),
      lastUse(lastUses[i] ?? null, now),
      when(parseIso(human.createdAt) ?? now, now),
    ],
  }));
  const main = markup`<div class="stack">${
    head(
      "People",
      `${counted(counts.people.active + counts.people.suspended, "account")}, ${
        number(counts.people.suspended)
      } suspended, newest first`,
      link(`${base}/invites`, "Invite a person"),
    )
  }${
    filter([
      markup`<div class="wide">${field({ id: "q", label: "Name or ID", value: q, type: "search" })}</div>`,
      choice("status", "Status", [["", "All"], ["active", "Active"], ["suspended", "Suspended"]], status ?? ""),
    ])
  }${
    rows.length === 0 && older === null
      ? empty("No such person", "No name begins like this.", link(`${base}/people`, "Show all", "quiet"))
      : markup`${
        table({
          caption: "People",
          columns: [
            { text: "Person" },
            { text: "Role" },
            { text: "Status" },
            { text: "Agents", isNumber: true },
            { text: "Last use" },
            { text: "Since" },
          ],
          rows,
        })
      }${pager(`${PAGE_ROWS} on a page`, older)}`
  }</div>`;
  return framed(pages, input, { title: "People", current: "people", main, hasField: true });
}

function statusTag({ status }: HumanRecord): Html {
  return status === "active" ? tag("ok", "active") : tag("bad", "suspended");
}

function lastUse(iso: string | null, now: number) {
  const at = parseIso(iso ?? "");
  return at === null ? "never" : when(at, now);
}

async function personPage(pages: ConsolePages, input: Input, error?: Html): Promise<PageResult> {
  const { deps } = pages, { base, csrf, params, session } = input;
  const found = await orNull("PERSON_NOT_FOUND", readPerson(deps, params.id ?? ""));
  if (found === null) return notThere(pages, input);
  const { human, apiKeys, agents, lastUsedAt } = found;
  const owned = await listAllAgents(deps, { ownerId: human.id, limit: PAGE_ROWS });
  const state = await relayStateOf(pages, session, owned.items.map(({ agent }) => agent.id)).catch(() => null);
  const now = deps.clock.now();
  const isSuspended = human.status === "suspended";
  const action = human.role === "admin"
    ? null
    : isSuspended
    ? markup`<form method="post" action="${`${base}/people/${human.id}/restore`}">${csrf}<button class="btn">Restore</button></form>`
    : link(`${base}/people/${human.id}/suspend`, "Suspend…", "quiet");
  const main = markup`<div class="stack">${
    head(name(human.displayName), human.role === "admin" ? "Admin" : "User", action)
  }${error}<div class="two">${
    card(
      "Account",
      lines([
        ["Status", statusTag(human)],
        ["DID", markup`<span class="id">${human.did}</span>`],
        ["Since", when(parseIso(human.createdAt) ?? now, now)],
        ["Last use", lastUse(lastUsedAt, now)],
        ["Agents", `${number(agents.active)} active, ${number(agents.revoked)} revoked`],
      ]),
    )
  }<section class="stack tight"><h2>API keys</h2>${
    table({
      caption: "API keys, without their secrets",
      columns: [{ text: "Name" }, { text: "Status" }, { text: "Last use" }, { text: "Since" }],
      rows: apiKeys.map((key): Row => ({
        cells: [
          markup`${name(key.name)}<small class="id">${shortId(key.id)}</small>`,
          key.status === "active" ? tag("ok", "active") : tag("", "revoked"),
          lastUse(key.lastUsedAt, now),
          when(parseIso(key.createdAt) ?? now, now),
        ],
      })),
    })
  }</section></div><section class="stack tight"><h2>Agents</h2>${
    owned.items.length === 0
      ? markup`<p class="small soft">None.</p>`
      : markup`${agentTable(base, owned.items, state, now)}${
        owned.nextCursor !== null && markup`<p class="small soft">The newest ${PAGE_ROWS}.</p>`
      }`
  }</section></div>`;
  return framed(pages, input, { title: human.displayName, current: "people", main });
}

function notThere(pages: ConsolePages, input: Input): PageResult {
  const main = empty("No such person", "Its ID is wrong.", link(`${input.base}/people`, "All people"));
  return { ...framed(pages, input, { title: "No such person", current: "people", main }), status: 404 };
}

async function suspendPage(pages: ConsolePages, input: Input, error?: Html): Promise<PageResult> {
  const found = await orNull("PERSON_NOT_FOUND", readPerson(pages.deps, input.params.id ?? ""));
  if (found === null) return notThere(pages, input);
  const { human, agents } = found;
  const main = confirmation(input, {
    title: markup`Suspend ${name(human.displayName)}?`,
    mood: "bad",
    text: "The person's API keys are refused and the sessions of the agents end, until you restore the account.",
    facts: lines([
      ["Person", name(human.displayName)],
      ["DID", markup`<span class="id">${human.did}</span>`],
      ["Agents", `${number(agents.active)} active`],
    ]),
    fields: field({
      id: "reason",
      label: markup`Reason, for the audit log <span class="soft">(optional)</span>`,
      value: input.form.get("reason") ?? "",
      maxLength: LIMITS.reason,
    }),
    action: `people/${human.id}/suspend`,
    label: markup`Suspend ${name(human.displayName)}`,
    back: `people/${human.id}`,
    error,
  });
  return framed(pages, input, { title: human.displayName, current: "people", main, hasField: true });
}

async function change(pages: ConsolePages, input: Input, wanted: HumanRecord["status"]): Promise<PageResult> {
  const id = input.params.id ?? "", { human: admin, requestId } = input.session;
  const given = (input.form.get("reason") ?? "").trim();
  const reason = given === "" ? undefined : parseReason(given);
  const again = wanted === "suspended" ? suspendPage : personPage;
  if (reason === null) {
    return await again(pages, input, problem("Not done.", `A reason has at most ${LIMITS.reason} characters of text.`));
  }
  try {
    await pages.deps.suspensions.change(id, { wanted, admin, reason, requestId });
  } catch (error) {
    return await again(pages, input, failed("Not done.", error));
  }
  return { to: `people/${id}` };
}
