/** `svc admin audit`: lists, follows and exports the audit log. */
import type { AuditEntry } from "../../../shared/protocol/api/audit.ts";
import { parseIso } from "../../../shared/protocol/time.ts";
import { connectAsAdmin } from "../../account/registry_access.ts";
import type { AuditFilter } from "../../account/audit_log.ts";
import { command, PERSON_OPTIONS } from "../../command_line/command.ts";
import { parseCount } from "../../command_line/numbers.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import { onStop } from "../../terminal/interrupt.ts";
import { idCell, timeCell } from "../../terminal/tables.ts";

/** Most events of one list: ten pages. */
const MAX_EVENTS = 1_000;
const EVENTS = 50;

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
      actor: { value: "did", summary: "Only what this person or agent did" },
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
      const { exportAudit, followAudit, newestEvents } = await import("../../account/audit_log.ts");
      if (event !== undefined) {
        const { isAuditFilter } = await import("../../../shared/protocol/api/audit.ts");
        if (!isAuditFilter(event)) {
          throw new CliError("CLI_USAGE", "--event is not an event such as agent.deleted, or a group such as agent.");
        }
      }
      if (since !== undefined && parseIso(since) === null) {
        throw new CliError("CLI_USAGE", "--since is not an RFC 3339 time such as 2026-12-31T12:00:00Z");
      }
      const count = parseCount(options.limit ?? `${EVENTS}`, "--limit", MAX_EVENTS);
      const filter: AuditFilter = { event, actor, since };
      const admin = connectAsAdmin(ctx, options);
      if (options.export) return await exportAudit(ctx, admin, filter);
      if (follow) {
        const stopped = new AbortController();
        const forget = onStop(ctx, () => stopped.abort());
        try {
          return await followAudit(ctx, admin, filter, count, stopped.signal);
        } finally {
          forget();
        }
      }
      listed(ctx, await newestEvents(admin, filter, count));
    },
  }),
];

function listed(ctx: Context, events: readonly AuditEntry[]): void {
  const now = ctx.clock.now();
  ctx.out.result(
    { events },
    ctx.out.table([
      { head: "AT", rank: 1, of: ({ at }) => timeCell(at, now) },
      { head: "EVENT", of: ({ event }) => event },
      { head: "ACTOR", rank: 1, of: ({ actor }) => idCell(actor) },
      { head: "SUBJECT", rank: 1, of: ({ subject }) => idCell(subject) },
      { head: "REQUEST", isWide: true, of: ({ requestId }) => requestId },
      { head: "REASON", rank: 2, of: ({ detail }) => detail ?? null },
    ], events),
  );
}
