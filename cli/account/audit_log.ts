/**
 * Reads the audit log for `svc admin audit`: the newest events, all events as JSON lines, and new events as they come.
 * Entries of two instances are not in the order of their commits, so following reads the last 30 s again. An export
 * ends with its count, so that a cut one is recognised.
 */
import type { AuditEntry } from "../../shared/protocol/api/audit.ts";
import { ApiError, UnreachableError } from "../../shared/client/errors.ts";
import { sleep } from "../../shared/clock.ts";
import { parseIso, toIso } from "../../shared/protocol/time.ts";
import type { AdminClient } from "../client/admin_client.ts";
import type { Context } from "../context.ts";

const PAGE = 100;
const LOOK_EVERY_MS = 2_000;
const OVERLAP_MS = 30_000;

/** Which events to show. */
export interface AuditFilter {
  event: string | undefined;
  actor: string | undefined;
  since: string | undefined;
}

const EVERYTHING: AuditFilter = { event: undefined, actor: undefined, since: undefined };

/** Returns true for an event of a list: unless events are chosen, a look at the relay is none, because it changes nothing. */
function isListed({ event }: AuditEntry, filter: AuditFilter): boolean {
  return filter.event !== undefined || event !== "admin.token_issued";
}

/** Returns the newest events of a list that fit, newest first, at most `count`. */
export async function newestEvents(admin: AdminClient, filter: AuditFilter, count: number): Promise<AuditEntry[]> {
  const events: AuditEntry[] = [];
  let cursor: string | undefined;
  while (true) {
    const limit = Math.min(PAGE, count - events.length);
    const page = await admin.audit({ ...filter, limit: String(limit), cursor });
    events.push(...page.events.slice(0, limit).filter((entry) => isListed(entry, filter)));
    const { nextCursor } = page.pagination;
    if (nextCursor === null || nextCursor === cursor || events.length >= count) return events;
    cursor = nextCursor;
  }
}

/** Reads all events that fit, oldest first, page by page. */
async function* oldestFirst(admin: AdminClient, filter: AuditFilter): AsyncGenerator<AuditEntry[]> {
  let cursor: string | undefined;
  while (true) {
    const page = await admin.audit({ ...filter, order: "asc", limit: String(PAGE), cursor });
    yield page.events;
    const { nextCursor } = page.pagination;
    if (nextCursor === null || nextCursor === cursor) return;
    cursor = nextCursor;
  }
}

/** Prints all events that exist when it begins as JSON lines, then their number. */
export async function exportAudit(ctx: Context, admin: AdminClient, filter: AuditFilter): Promise<void> {
  const { events: [newest] } = await admin.audit({ limit: "1" });
  let count = 0;
  ctx.out.doing("Exporting the audit log");
  for await (const events of oldestFirst(admin, filter)) {
    const known = events.filter(({ id }) => newest !== undefined && id <= newest.id);
    for (const entry of known) if (!ctx.out.peerLines([JSON.stringify(entry)])) return;
    count += known.length;
    if (known.length < events.length) break;
  }
  ctx.out.peerLines([JSON.stringify({ count })]);
}

/** Prints the newest events, at most `count`, and then each new one, until the signal or the end of the reader. */
export async function followAudit(
  ctx: Context,
  admin: AdminClient,
  filter: AuditFilter,
  count: number,
  signal: AbortSignal,
): Promise<void> {
  const follower = new Follower(ctx, filter);
  // Without a filter: the position must not depend on how rare the events are.
  for (const { at } of (await admin.audit({ limit: "1" })).events) follower.reach(at);
  // What the overlap holds already is not new. Events that come during these requests are.
  for await (const events of oldestFirst(admin, follower.query)) for (const entry of events) follower.mark(entry);
  for (const entry of (await newestEvents(admin, filter, count)).reverse()) {
    follower.mark(entry);
    if (!follower.print(entry)) return;
  }
  while (!signal.aborted) {
    let pauseMs = LOOK_EVERY_MS;
    try {
      for await (const events of oldestFirst(admin, follower.query)) if (!follower.show(events)) return;
      follower.forget();
    } catch (error) {
      pauseMs = pauseAfter(error);
      ctx.out.note(`The registry does not answer; asking again in ${pauseMs / 1000} s.`);
    }
    await sleep(ctx.clock, pauseMs, signal);
  }
}

/** Returns how long to wait after a failure that passes. @throws any other error */
function pauseAfter(error: unknown): number {
  if (error instanceof ApiError && (error.status === 429 || error.status >= 500)) {
    return Math.max(LOOK_EVERY_MS, (error.retryAfter ?? 0) * 1000);
  }
  if (error instanceof UnreachableError) return LOOK_EVERY_MS;
  throw error;
}

/** Prints each event once. */
class Follower {
  /** IDs that were seen, with their times. */
  readonly #seen = new Map<string, number>();
  /** Time of the newest event. */
  #newest = -Infinity;

  constructor(private readonly ctx: Context, private readonly filter: AuditFilter) {}

  /** All events of the last 30 s before the newest one; `show` filters them. */
  get query(): AuditFilter {
    const since = Number.isFinite(this.#newest) ? toIso(this.#newest - OVERLAP_MS) : undefined;
    return { ...EVERYTHING, since };
  }

  /** Moves the position to a time. */
  reach(at: string): void {
    this.#newest = Math.max(this.#newest, parseIso(at) ?? -Infinity);
  }

  /** Remembers an event as seen. */
  mark({ id, at }: AuditEntry): void {
    this.#seen.set(id, parseIso(at) ?? 0);
    this.reach(at);
  }

  /** Prints the events that are new and fit. Returns false when the reader of the output has ended. */
  show(events: readonly AuditEntry[]): boolean {
    for (const entry of events) {
      if (this.#seen.has(entry.id)) continue;
      this.mark(entry);
      if (this.#fits(entry) && !this.print(entry)) return false;
    }
    return true;
  }

  /** Forgets the IDs that the next query does not return. */
  forget(): void {
    for (const [id, at] of this.#seen) if (at < this.#newest - OVERLAP_MS) this.#seen.delete(id);
  }

  #fits(entry: AuditEntry): boolean {
    const { event, actor, at } = entry, { event: wanted, since } = this.filter;
    return isListed(entry, this.filter) &&
      (wanted === undefined || event === wanted || (wanted.endsWith(".") && event.startsWith(wanted))) &&
      (this.filter.actor === undefined || actor === this.filter.actor) &&
      (since === undefined || (parseIso(at) ?? 0) >= (parseIso(since) ?? 0));
  }

  /** Prints an event. Returns false when the reader of the output has ended. */
  print(entry: AuditEntry): boolean {
    const { at, event, actor, subject, requestId, detail } = entry;
    if (this.ctx.out.json) return this.ctx.out.jsonLine(JSON.stringify(entry));
    return this.ctx.out.peerLines([[at, event, actor, subject, requestId, detail ?? ""].join("  ").trimEnd()]);
  }
}
