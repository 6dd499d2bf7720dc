/** HTTP handler of the audit log: pages with filters, newest or oldest first. */
import type { Kv, KvListSelector } from "../../shared/server/kv.ts";
import { AuditEntry, type AuditQuery } from "../../shared/protocol/api/audit.ts";
import { firstUlidOf } from "../../shared/protocol/ids.ts";
import { parseIso } from "../../shared/protocol/time.ts";
import { type Answer, json, pick } from "../../shared/server/http/route.ts";
import { afterCursor, type Page, readPage } from "../../shared/server/store/pages.ts";
import type { WithQuery } from "../callers.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { AuditRecord } from "../schema/records.ts";

/**
 * How much later than its event an ID may be, because IDs do not go back when the clock does. With less, a page up to a
 * time would miss such events.
 */
const CLOCK_SLACK_MS = 3_600_000;

export async function listAudit(deps: { kv: Kv }, { query }: WithQuery<AuditQuery>): Promise<Answer> {
  const { items: events, nextCursor } = await readAudit(deps, query);
  return json({
    events: events.map((event) => pick(AuditEntry, event)),
    pagination: { limit: query.limit, nextCursor },
  });
}

export async function readAudit(
  { kv }: { kv: Kv },
  query: AuditQuery,
  hidden: ReadonlySet<string> = new Set(),
): Promise<Page<AuditRecord>> {
  const range = { reverse: query.order === "desc", limit: query.limit };
  const fits = filterOf(query);
  return await readPage<AuditRecord>(
    kv,
    selectorOf(query),
    range,
    (entries) => entries.map(({ value }) => fits(value) && !hidden.has(value.event) ? value : null),
  );
}

/** Returns the range of keys to read. An ID begins with its time, so times bound the range; `~` follows every ID. */
function selectorOf({ order, cursor, since, until }: AuditQuery): KvListSelector {
  const prefix = KEYS.auditLog(), isDown = order === "desc";
  const begins = [since === undefined ? "" : firstUlidOf(timeOf(since))];
  const ends = [until === undefined ? "~" : firstUlidOf(timeOf(until) + CLOCK_SLACK_MS)];
  if (cursor !== undefined) (isDown ? ends : begins).push(isDown ? cursor : afterCursor(cursor));
  const first = begins.sort().at(-1) ?? "", [last = "~"] = ends.sort();
  return { start: [...prefix, first], end: [...prefix, first > last ? first : last] };
}

function filterOf({ event, actor, subject, since, until }: AuditQuery): (entry: AuditRecord) => boolean {
  const from = since === undefined ? -Infinity : timeOf(since);
  const to = until === undefined ? Infinity : timeOf(until);
  return (entry) => {
    const at = timeOf(entry.at);
    return at >= from && at < to && (actor === undefined || entry.actor === actor) &&
      (subject === undefined || entry.subject === subject) &&
      (event === undefined || entry.event === event || (event.endsWith(".") && entry.event.startsWith(event)));
  };
}

function timeOf(iso: string): number {
  return parseIso(iso) ?? NaN;
}
