/**
 * `svc admin audit`: prints the newest events, exports all of them as JSON lines, or follows new ones. Following reads
 * the 30 s before the newest event each time, because two instances may commit their entries out of order, and a late
 * entry would otherwise be missed. An export ends with its count, so that its reader notices when it was cut off.
 */
import { retryWait } from "../../../shared/client/backoff.ts";
import { ApiError, UnreachableError } from "../../../shared/client/errors.ts";
import { type Clock, sleep } from "../../../shared/clock.ts";
import { AUDIT_FILTERS, type AuditEntry } from "../../../shared/protocol/api/audit.ts";
import { parseIso, toIso } from "../../../shared/protocol/time.ts";
import { connectAsAdmin } from "../../account/registry_access.ts";
import type { AdminClient } from "../../client/admin_client.ts";
import { pagesOf } from "../../client/registry_client.ts";
import { command, PERSON_OPTIONS } from "../../command_line/command.ts";
import { parseCount } from "../../command_line/numbers.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import { ServiceClock } from "../../link/service_clock.ts";
import { stopSignal } from "../../terminal/interrupt.ts";
import { idCell } from "../../terminal/tables.ts";
import { didOf, nameCell, namesOf } from "./pages.ts";

const PAGE = 100;
const LOOK_EVERY_MS = 2_000;
const OVERLAP_MS = 30_000;
/** How long printed events are remembered. With less, a clock that is set back by an hour prints them again. */
const SEEN_MS = 2 * 3_600_000;
const MAX_EVENTS = 1_000;
const EVENTS = 50;
/** The actor of what is done on the registry's host. */
const HOST = "store recover";
/** How often a page is asked for. With more, the command waits for longer while others use up the limit. */
const TRIES = 5;

export const COMMANDS = [
  command({
    path: ["admin", "audit"],
    summary: "List the audit events, newest first; or follow or export them",
    details: [
      "--follow prints the newest events and then each new one, oldest first, until Ctrl-C.",
      'The last line of an export is {"count":n}: an export without it is not complete.',
    ],
    options: {
      ...PERSON_OPTIONS,
      limit: { value: "count", summary: `Most events to list, 1 to ${MAX_EVENTS} (default ${EVENTS})` },
      event: { value: "event", summary: "Only this event, or a group such as agent." },
      actor: {
        value: "who",
        summary: "Only what this person did, by name, ID or DID, or this agent, as name@person or DID",
      },
      since: { value: "timestamp", summary: "Only events from this time on, for example 2026-12-31T12:00:00Z" },
      follow: { summary: "Wait for more events until Ctrl-C" },
      export: { summary: "Print all events as JSON lines, oldest first" },
    },
    examples: {
      "svc admin audit --limit 10": "Show the ten latest changes and who made them",
      "svc admin audit --event person. --follow": "Watch suspensions",
      "svc admin audit --export >audit.jsonl": "Keep the log elsewhere",
    },
    async run(ctx, { options }) {
      const { event, actor, since, follow } = options;
      if (follow && options.export) throw new CliError("CLI_USAGE", "--follow and --export exclude each other");
      if (options.export && options.limit !== undefined) {
        throw new CliError("CLI_USAGE", "--export prints all events; it has no --limit");
      }
      if (event !== undefined && !AUDIT_FILTERS.includes(event)) {
        throw new CliError("CLI_USAGE", "--event is not an event such as agent.deleted, or a group such as agent.");
      }
      if (since !== undefined && parseIso(since) === null) {
        throw new CliError("CLI_USAGE", "--since is not an RFC 3339 time such as 2026-12-31T12:00:00Z");
      }
      const count = parseCount(options.limit ?? `${EVENTS}`, "--limit", MAX_EVENTS);
      const clock = new ServiceClock(ctx.clock);
      const onResponse = (headers: Headers) => {
        ctx.onResponse?.(headers);
        clock.see(headers.get("Date"));
        clock.adopt();
      };
      const admin = connectAsAdmin({ ...ctx, onResponse }, options);
      // A name would fit no event, which reads as if the person had done nothing.
      const did = actor === undefined || actor === HOST ? actor : await didOf(admin, actor, "human").catch((error) => {
        // The name of a person may have an @ too, as a mail address has.
        const isUnknown = error instanceof CliError && error.code === "CLI_NAME_UNKNOWN" && actor.includes("@");
        return isUnknown ? didOf(admin, actor, "agent") : Promise.reject(error);
      });
      const filter: AuditFilter = { event, actor: did, since };
      if (options.export) return await exportAudit(ctx, admin, filter);
      if (follow) {
        using stopped = stopSignal(ctx);
        return await followAudit(ctx, admin, new Follower(ctx.out, filter, clock), count, stopped.signal);
      }
      const events = await newestEvents(ctx, admin, filter, count);
      const subjects = events.flatMap(({ actor, subject }) => [actor, subject]);
      const names = await namesOf(admin, ctx.out.showsIds ? [] : subjects);
      ctx.out.list({ events }, events, "No events.", [
        { head: "AT", rank: 1, of: ({ at }) => ctx.out.time(at) },
        { head: "EVENT", of: ({ event }) => event },
        { head: "ACTOR", rank: 1, of: ({ actor }) => nameCell(names, actor) },
        { head: "SUBJECT", rank: 1, of: ({ subject }) => nameCell(names, subject) },
        { head: "REQUEST", isWide: true, of: ({ requestId }) => requestId },
        { head: "REASON", rank: 2, of: ({ detail }) => detail ?? null },
      ]);
    },
  }),
];

type AuditFilter = Partial<Record<"event" | "actor" | "since", string | undefined>>;

/**
 * Whether an entry is shown. An admin's look at the relay makes an entry that records no change, so that entry is left
 * out unless the filter names an event or a group.
 */
function isListed({ event }: AuditEntry, filter: AuditFilter): boolean {
  return filter.event !== undefined || event !== "admin.token_issued";
}

async function newestEvents(
  ctx: Context,
  admin: AdminClient,
  filter: AuditFilter,
  count: number,
): Promise<AuditEntry[]> {
  const found: AuditEntry[] = [];
  // Whole pages, because behind many events that are not listed, pages of only the missing number would be so many that
  // the registry refuses them.
  for await (const { events } of patientPages(ctx, admin, filter)) {
    found.push(...events.filter((entry) => isListed(entry, filter)));
    if (found.length >= count) break;
  }
  return found.slice(0, count);
}

function pagesOldestFirst(admin: AdminClient, filter: AuditFilter) {
  return pagesOf((cursor) => admin.audit({ ...filter, order: "asc", limit: PAGE, cursor }));
}

/**
 * Asks again while the registry refuses so many requests, because a long log has more pages than it answers in a minute,
 * and its end would never be reached. The fifth refusal in a row is passed on.
 */
function patientPages({ clock, out }: Context, admin: AdminClient, query: AuditFilter & { order?: "asc" }) {
  return pagesOf(async (cursor) => {
    for (let tries = 1;; tries++) {
      try {
        return await admin.audit({ ...query, limit: PAGE, cursor });
      } catch (error) {
        if (!(error instanceof ApiError && error.status === 429) || tries === TRIES) throw error;
        const pauseMs = pauseAfter(error);
        out.note(`The registry answers so many requests only after ${pauseMs / 1000} s. The command goes on then.`);
        await sleep(clock, pauseMs);
      }
    }
  });
}

/** Prints, as JSON lines, all events that exist when the export begins, and then their number. */
async function exportAudit(ctx: Context, admin: AdminClient, filter: AuditFilter): Promise<void> {
  const { events: [newest] } = await admin.audit({ limit: 1 });
  let count = 0;
  ctx.out.doing("Exporting the audit log");
  for await (const { events } of patientPages(ctx, admin, { ...filter, order: "asc" })) {
    const known = events.filter(({ id }) => newest !== undefined && id <= newest.id);
    for (const entry of known) if (!ctx.out.jsonLine(JSON.stringify(entry))) return;
    count += known.length;
    if (known.length < events.length) break;
  }
  ctx.out.jsonLine(JSON.stringify({ count }));
}

/** Prints the newest events, at most `count`, then each new one, until the signal or until no one reads the output. */
async function followAudit(
  ctx: Context,
  admin: AdminClient,
  follower: Follower,
  count: number,
  signal: AbortSignal,
): Promise<void> {
  // Asked without the filter, because the newest event that fits it may be old, and the first look would read all
  // events since then.
  for (const entry of (await admin.audit({ limit: 1 })).events) follower.mark(entry);
  // The events of the 30 s before the newest one are marked as seen, because the first look reads them again and would
  // print them as new.
  for await (const { events } of pagesOldestFirst(admin, follower.query)) {
    for (const entry of events) follower.mark(entry);
  }
  for (const entry of (await newestEvents(ctx, admin, follower.filter, count)).reverse()) {
    follower.mark(entry);
    if (!follower.print(entry)) return;
  }
  // In place of the line that counts the seconds of the first call, which would read as a registry that does not answer.
  ctx.out.doing("Waiting for events");
  while (!signal.aborted) {
    let pauseMs = LOOK_EVERY_MS;
    try {
      for await (const { events } of pagesOldestFirst(admin, follower.query)) if (!follower.show(events)) return;
      follower.forget();
    } catch (error) {
      pauseMs = pauseAfter(error);
      ctx.out.note(`The registry does not answer; asking again in ${pauseMs / 1000} s.`);
    }
    await sleep(ctx.clock, pauseMs, signal);
  }
}

/** Returns how many milliseconds to wait after a failure that may pass by itself. @throws any other error */
function pauseAfter(error: unknown): number {
  if (error instanceof ApiError && (error.status === 429 || error.status >= 500)) {
    return Math.max(LOOK_EVERY_MS, retryWait(1, (error.retryAfter ?? 0) * 1000));
  }
  if (error instanceof UnreachableError) return LOOK_EVERY_MS;
  throw error;
}

/** Prints each event once, although each look reads the events of the 30 s before the newest one again. */
class Follower {
  /** IDs of the events that were seen, with their times in milliseconds. */
  readonly #seen = new Map<string, number>();
  #newest = -Infinity;

  /** @param clock the registry's, because with one that is behind, each look would read all events since that time */
  constructor(private readonly out: Context["out"], readonly filter: AuditFilter, private readonly clock: Clock) {}

  /** Asks for all events since 30 s before the newest one. Not filtered, so that any new event moves this time on. */
  get query(): AuditFilter {
    return Number.isFinite(this.#newest) ? { since: toIso(this.#since) } : {};
  }

  /** An event in the future is of a clock that was set back since. With its time, no new event would be found till then. */
  get #since(): number {
    return Math.min(this.#newest, this.clock.now()) - OVERLAP_MS;
  }

  mark({ id, at }: AuditEntry): void {
    const ms = parseIso(at) ?? 0;
    this.#seen.set(id, ms);
    this.#newest = Math.max(this.#newest, ms);
  }

  /** Prints the new events that the filter wants. Returns false when no one reads the output any longer. */
  show(events: readonly AuditEntry[]): boolean {
    for (const entry of events) {
      if (this.#seen.has(entry.id)) continue;
      this.mark(entry);
      if (this.#fits(entry) && !this.print(entry)) return false;
    }
    return true;
  }

  /** Forgets the IDs that are too old for the next query to return them, because they would fill the memory. */
  forget(): void {
    for (const [id, at] of this.#seen) if (at < this.#since - SEEN_MS) this.#seen.delete(id);
  }

  #fits(entry: AuditEntry): boolean {
    const { event = "", actor = entry.actor, since = entry.at } = this.filter;
    const isWanted = event === "" || entry.event === event || event.endsWith(".") && entry.event.startsWith(event);
    const isLate = (parseIso(entry.at) ?? 0) >= (parseIso(since) ?? 0);
    return isListed(entry, this.filter) && isWanted && entry.actor === actor && isLate;
  }

  /** Prints an event. Returns false when no one reads the output any longer. */
  print(entry: AuditEntry): boolean {
    const { at, event, actor, subject, requestId, detail } = entry;
    if (this.out.json) return this.out.jsonLine(JSON.stringify(entry));
    const [who, whom] = [actor, subject].map((id) => this.out.shown(idCell(id)));
    const parts = [at, event, who, whom, this.out.showsIds ? requestId : null, detail];
    return this.out.peerLines([parts.filter((part) => part).join("  ")]);
  }
}
