/** The audit log in words, with names in place of DIDs, and as a file. */
import {
  agentLink,
  agentsByDid,
  type ConsolePages,
  type ConsoleRow,
  framed,
  type Input,
  PAGE_ROWS,
  peopleByDid,
  personLink,
  shortId,
} from "./frame.ts";
import { readAudit } from "../audit/handlers.ts";
import { findByName } from "../people/store.ts";
import type { AuditEvent, AuditRecord, HumanRecord } from "../schema/records.ts";
import type { NamedAgent } from "./frame.ts";
import { markup, type Value } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import { choice, empty, field, filter, head, link, name, pager, type Row, table } from "../../shared/page/parts.ts";
import { clockTime, dayHeading, dayOf } from "../../shared/page/times.ts";
import { AUDIT_EVENTS, AuditEntry, type AuditQuery, isAuditFilter } from "../../shared/protocol/api/audit.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseIso } from "../../shared/protocol/time.ts";
import { pick } from "../../shared/server/http/route.ts";

/** With more, one download takes the time of other requests. */
const FILE_ROWS = 10_000;
const FILE_STEP = 100;
/** What changes nothing, or changes all the time: hidden unless asked for. */
const LOOKS: ReadonlySet<string> = new Set(["admin.token_issued", "console.opened", "session.refreshed"]);

export const auditRows: readonly ConsoleRow[] = [
  { method: "GET", path: "audit", render: auditPage },
  { method: "GET", path: "audit.jsonl", render: auditFile },
];

const WORDS: Readonly<Record<AuditEvent, string>> = {
  "admin.bootstrapped": "First admin created",
  "admin.recovered": "Admin recovered",
  "person.suspended": "Person suspended",
  "person.restored": "Person restored",
  "invite.created": "Invite created",
  "invite.deleted": "Invite taken back",
  "invite.redeemed": "Invite used",
  "api_key.created": "API key created",
  "api_key.revoked": "API key revoked",
  "agent.registered": "Agent registered",
  "agent.reissued": "Identity issued again",
  "agent.deleted": "Agent revoked",
  "session.refreshed": "Session refreshed",
  "session.recovered": "Session recovered",
  "session.revoked": "Session ended",
  "session.reuse_detected": "Old token used: session ended",
  "service.created": "Service created",
  "service.rotated": "Secret of a service renewed",
  "service.deleted": "Service revoked",
  "signing_key.rotated": "Signing key renewed",
  "admin.token_issued": "Looked at the relay",
  "console.opened": "Console opened",
};

/** What the page is asked for. */
interface Wanted {
  event: string;
  by: string;
  about: string;
  since: string;
}

function wantedOf({ query }: Input): Wanted {
  const text = (key: string) => (query.get(key) ?? "").trim().slice(0, LIMITS.auditFilter);
  return { event: text("event"), by: text("by"), about: text("about"), since: text("since") };
}

/** The query of the store, and what of it names no record. */
async function queryOf({ deps }: ConsolePages, { event, by, about, since }: Wanted) {
  const [actor, subject] = await Promise.all([by, about].map((text) => recordNamed(deps, text)));
  const from = parseIso(since === "" ? "" : `${since}T00:00:00Z`);
  const isSinceWrong = since !== "" && from === null;
  const query: Omit<AuditQuery, "limit"> = {
    order: "desc",
    event: isAuditFilter(event) ? event : undefined,
    actor: actor?.subject,
    subject: subject?.subject,
    since: from === null ? undefined : new Date(from).toISOString(),
  };
  const hidden = event === "" ? LOOKS : new Set<string>();
  return {
    query,
    hidden,
    wrong: { by: actor?.wrong, about: subject?.wrong, since: isSinceWrong ? "Write it as 2026-11-23." : undefined },
  };
}

/** A DID, an ID, or the only person or agent with a name. */
async function recordNamed(
  deps: ConsolePages["deps"],
  text: string,
): Promise<{ subject?: string; wrong?: string }> {
  if (text === "") return {};
  if (text.startsWith("did:") || isUlid(text) || text === "store recover") return { subject: text };
  const found = await findByName(deps, text);
  const [first] = found;
  if (first === undefined) return { wrong: `No person and no agent is called ${text}.` };
  return found.length > 1 ? { wrong: `${found.length} have this name; give the DID.` } : { subject: first };
}

async function auditPage(pages: ConsolePages, input: Input): Promise<PageResult> {
  const wanted = wantedOf(input), cursor = input.query.get("cursor") ?? "";
  const { query, hidden, wrong } = await queryOf(pages, wanted);
  const isWrong = Object.values(wrong).some((text) => text !== undefined);
  const { items, nextCursor } = isWrong
    ? { items: [], nextCursor: null }
    : await readAudit(pages.deps, { ...query, limit: PAGE_ROWS, cursor: isUlid(cursor) ? cursor : undefined }, hidden);
  const subjects = items.flatMap(({ actor, subject }) => [actor, subject]);
  const [agents, people] = await Promise.all([agentsByDid(pages, subjects), peopleByDid(pages, subjects)]);
  const now = pages.deps.clock.now();
  const groups = [...new Set(AUDIT_EVENTS.map((event) => event.slice(0, event.indexOf(".") + 1)))];
  const search = new URLSearchParams({ ...wanted }).toString();
  const older = nextCursor === null ? null : `?${search}&cursor=${nextCursor}`;
  const main = markup`<div class="stack">${
    head(
      "Audit",
      "Every change of people, agents and keys. Looks and refreshes are not listed unless you ask for them.",
      link(`${input.base}/audit.jsonl?${search}`, "Download", "quiet"),
    )
  }${
    filter([
      choice("event", "Event", [
        ["", "Changes"],
        ["all", "All, with looks"],
        ...groups.map((group) => [group, group] as const),
        ...AUDIT_EVENTS.map((event) => [event, WORDS[event]] as const),
      ], wanted.event),
      field({ id: "by", label: "By", value: wanted.by, placeholder: "name or DID", error: wrong.by }),
      field({ id: "about", label: "About", value: wanted.about, placeholder: "name, DID or ID", error: wrong.about }),
      field({ id: "since", label: "Since", value: wanted.since, type: "date", error: wrong.since }),
    ])
  }${
    items.length === 0 && older === null
      ? empty("No such event", "Nothing fits the filter.", link(`${input.base}/audit`, "Show all changes", "quiet"))
      : markup`${
        table({
          caption: "Audit events",
          columns: [{ text: "Time, UTC" }, { text: "Event" }, { text: "By" }, { text: "About" }, { text: "Request" }],
          rows: rowsOf(items, { agents, people, base: input.base, now }),
        })
      }${pager(items.length === 0 ? "None among the newest 1,000" : "Newest first", older)}`
  }</div>`;
  return framed(pages, input, { title: "Audit", current: "audit", main, hasField: true });
}

interface Names {
  agents: ReadonlyMap<string, NamedAgent>;
  people: ReadonlyMap<string, HumanRecord>;
  base: string;
  now: number;
}

function rowsOf(items: readonly AuditRecord[], names: Names): Row[] {
  let day: number | null = null;
  return items.flatMap((entry): Row[] => {
    const at = parseIso(entry.at) ?? 0;
    const isNew = dayOf(at) !== day;
    day = dayOf(at);
    const row: Row = {
      cells: [
        clockTime(at),
        markup`<span class="nb">${WORDS[entry.event] ?? entry.event}</span><small class="id nb">${entry.event}</small>`,
        who(entry.actor, names),
        markup`${who(entry.subject, names)}${entry.detail !== undefined && markup`<small>“${entry.detail}”</small>`}`,
        markup`<span class="id nb">${shortId(entry.requestId)}</span>`,
      ],
    };
    return isNew ? [{ day: dayHeading(at, names.now) }, row] : [row];
  });
}

function who(subject: string, { agents, people, base }: Names): Value {
  const agent = agents.get(subject), person = people.get(subject);
  if (agent !== undefined) return agentLink(base, agent);
  if (person !== undefined) return personLink(base, person);
  return markup`<span class="id">${subject.length <= 14 ? name(subject) : shortId(subject)}</span>`;
}

/** The log as JSON lines; the last line says when there is more. */
async function auditFile(pages: ConsolePages, input: Input): Promise<PageResult> {
  const { query, hidden, wrong } = await queryOf(pages, wantedOf(input));
  if (Object.values(wrong).some((text) => text !== undefined)) return await auditPage(pages, input);
  const written: string[] = [];
  let cursor: string | undefined;
  do {
    const { items, nextCursor } = await readAudit(pages.deps, { ...query, limit: FILE_STEP, cursor }, hidden);
    for (const entry of items) written.push(JSON.stringify(pick(AuditEntry, entry)));
    cursor = nextCursor ?? undefined;
  } while (cursor !== undefined && written.length < FILE_ROWS);
  if (cursor !== undefined) written.push(JSON.stringify({ cut: true, message: `older entries follow ${cursor}` }));
  return { file: `${written.join("\n")}\n`, name: "audit.jsonl", type: "application/jsonl; charset=utf-8" };
}
