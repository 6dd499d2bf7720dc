/** The audit log in words, with names in place of DIDs, and the same log as a file. */
import {
  agentLink,
  agentsByDid,
  type ConsoleDeps,
  cursorOf,
  framed,
  type Input,
  type NamedAgent,
  PAGE_ROWS,
  peopleByDid,
  personLink,
  shortId,
} from "./frame.ts";
import { readAudit } from "../audit/handlers.ts";
import { findByName } from "../people/store.ts";
import type { AuditRecord, HumanRecord } from "../schema/records.ts";
import { markup, type Value } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import * as ui from "../../shared/page/parts.ts";
import { clockTime, dayHeading, dayOf, msOf } from "../../shared/page/times.ts";
import {
  AUDIT_EVENTS,
  AUDIT_FILTERS,
  AUDIT_WORDS,
  AuditEntry,
  type AuditQuery,
} from "../../shared/protocol/api/audit.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseIso, toIso } from "../../shared/protocol/time.ts";
import { pick } from "../../shared/server/http/route.ts";

/**
 * Pages of a download, each of 100 rows among at most 1,000 entries. With more, one download takes the time of other
 * requests.
 */
const FILE_PAGES = 100;
/**
 * Events that change nothing or occur all the time. They are hidden until a filter asks for them, because the few
 * changes would be lost among them.
 */
const LOOKS: ReadonlySet<string> = new Set([
  "admin.token_issued",
  "console.opened",
  "session.refreshed",
  "session.recovered",
]);

/** Reads the filter of a request: as typed, as a query of the store, and what is wrong with it. */
async function wantedOf(deps: ConsoleDeps, { query }: Input) {
  const text = (key: string) => (query.get(key) ?? "").trim().slice(0, LIMITS.auditFilter);
  const given = { event: text("event"), by: text("by"), about: text("about"), since: text("since") };
  const [actor, subject] = await Promise.all([recordNamed(deps, given.by), recordNamed(deps, given.about)]);
  const from = parseIso(`${given.since}T00:00:00Z`);
  const isSinceWrong = given.since !== "" && from === null;
  const store: Omit<AuditQuery, "limit"> = {
    order: "desc",
    event: AUDIT_FILTERS.includes(given.event) ? given.event : undefined,
    actor: actor.subject,
    subject: subject.subject,
    since: from === null ? undefined : toIso(from),
  };
  const wrong = { by: actor.wrong, about: subject.wrong, since: isSinceWrong ? "Write it as 2026-11-23." : undefined };
  const isWrong = Object.values(wrong).some((text) => text !== undefined);
  return { given, store, wrong, isWrong, hidden: given.event === "" ? LOOKS : new Set<string>() };
}

/** Returns the subject that a text means: a DID, an ID, or the only person or agent with that name. */
async function recordNamed(deps: ConsoleDeps, text: string): Promise<{ subject?: string; wrong?: string }> {
  if (text === "") return {};
  if (text.startsWith("did:") || isUlid(text) || text === "store recover") return { subject: text };
  const found = await findByName(deps, text);
  const [first] = found;
  if (first === undefined) return { wrong: `No person and no agent is called ${text}.` };
  return found.length > 1 ? { wrong: `${found.length} have this name; give the DID.` } : { subject: first };
}

export async function auditPage(deps: ConsoleDeps, input: Input): Promise<PageResult> {
  const { given, store, wrong, isWrong, hidden } = await wantedOf(deps, input);
  const wanted = { ...store, limit: PAGE_ROWS, cursor: cursorOf(input) };
  const { items, nextCursor } = isWrong ? { items: [], nextCursor: null } : await readAudit(deps, wanted, hidden);
  const subjects = items.flatMap(({ actor, subject }) => [actor, subject]);
  const [agents, people] = await Promise.all([agentsByDid(deps, subjects), peopleByDid(deps, subjects)]);
  const groups = AUDIT_FILTERS.filter((text) => text.endsWith("."));
  const events: [string, string][] = [
    ["", "Changes"],
    ["all", "All, with looks"],
    ...groups.map((group): [string, string] => [group, group]),
    ...AUDIT_EVENTS.map((event): [string, string] => [event, AUDIT_WORDS[event]]),
  ];
  const search = new URLSearchParams(given).toString();
  const older = nextCursor === null ? null : `?${search}&cursor=${nextCursor}`;
  const rows = rowsOf(items, { agents, people, base: input.base, now: deps.clock.now() });
  const columns = ["Time, UTC", "Event", "By", "About", "Request"];
  const main = [
    ui.head(
      "Audit",
      "Every change of people, agents and keys. Looks and refreshes are not listed unless you ask for them.",
      ui.link(`${input.base}/audit.jsonl?${search}`, "Download", "quiet"),
    ),
    ui.filter([
      ui.choice("event", "Event", events, given.event),
      ui.field({ id: "by", label: "By", value: given.by, placeholder: "name or DID", error: wrong.by }),
      ui.field({ id: "about", label: "About", value: given.about, placeholder: "name, DID or ID", error: wrong.about }),
      ui.field({ id: "since", label: "Since", value: given.since, type: "date", error: wrong.since }),
    ]),
    rows.length === 0 && older === null
      ? ui.empty(
        "No such event",
        "Nothing fits the filter.",
        ui.link(`${input.base}/audit`, "Show all changes", "quiet"),
      )
      : [
        ui.table({ caption: "Audit events", columns, rows }),
        ui.pager(
          rows.length === 0
            ? `None among these ${ui.number(LIMITS.filteredPageReads)}; older ones follow`
            : "Newest first",
          older,
        ),
      ],
  ];
  return framed(deps, input, { title: "Audit", current: "audit", main, hasField: true });
}

interface Names {
  agents: ReadonlyMap<string, NamedAgent>;
  people: ReadonlyMap<string, HumanRecord>;
  base: string;
  now: number;
}

function rowsOf(items: readonly AuditRecord[], names: Names): ui.Row[] {
  let day: number | null = null;
  return items.flatMap(({ at, event, actor, subject, detail, requestId }): ui.Row[] => {
    const ms = msOf(at), isSameDay = dayOf(ms) === day;
    day = dayOf(ms);
    const cells = [
      clockTime(ms),
      markup`<span class="nb">${AUDIT_WORDS[event] ?? event}</span><small class="id nb">${event}</small>`,
      who(actor, names),
      markup`${who(subject, names)}${detail !== undefined && markup`<small>“${detail}”</small>`}`,
      markup`<span class="id nb">${shortId(requestId)}</span>`,
    ];
    return isSameDay ? [{ cells }] : [{ day: dayHeading(ms, names.now) }, { cells }];
  });
}

function who(subject: string, { agents, people, base }: Names): Value {
  const agent = agents.get(subject), person = people.get(subject);
  if (agent !== undefined) return agentLink(base, agent);
  if (person !== undefined) return personLink(base, person);
  return markup`<span class="id">${ui.name(shortId(subject))}</span>`;
}

/** The log as JSON lines. If the log goes on after the last page, the last line says with which `cursor`. */
export async function auditFile(deps: ConsoleDeps, input: Input): Promise<PageResult> {
  const { store, isWrong, hidden } = await wantedOf(deps, input);
  if (isWrong) return await auditPage(deps, input);
  const written: string[] = [];
  let cursor = cursorOf(input);
  for (let page = 0; page < FILE_PAGES; page++) {
    const { items, nextCursor } = await readAudit(deps, { ...store, limit: 100, cursor }, hidden);
    for (const entry of items) written.push(JSON.stringify(pick(AuditEntry, entry)));
    cursor = nextCursor ?? undefined;
    if (cursor === undefined) break;
  }
  if (cursor !== undefined) written.push(JSON.stringify({ cut: true, message: `older entries follow ${cursor}` }));
  return { file: `${written.join("\n")}\n`, name: "audit.jsonl", type: "application/jsonl; charset=utf-8" };
}
