/** `svc admin people …`: the people of a registry. */
import { isConfirmed, YES } from "../confirm.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import { Human } from "../../../shared/protocol/api/accounts.ts";
import { OPERATOR_RETRY_MS } from "../../../shared/client/refusals.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { parseReason } from "../../../shared/protocol/names.ts";
import { connectAsAdmin, registryWords } from "../../account/registry_access.ts";
import { command, PERSON_OPTIONS } from "../../command_line/command.ts";
import type { Context } from "../../context.ts";
import { CliError, EXIT } from "../../errors.ts";
import { fields } from "../../terminal/output.ts";
import { idCell } from "../../terminal/tables.ts";
import { hintNextPage, optionWords, PAGE_OPTIONS, personIdOf, readPages } from "./pages.ts";

const PERSON = { summary: "Name, ID or DID of the person, from svc admin people list" } as const;
const REASON = { value: "text", summary: `Reason for the audit log, at most ${LIMITS.reason} characters` } as const;

export const COMMANDS = [
  command({
    path: ["admin", "people", "list"],
    summary: "List the people, newest first",
    options: {
      ...PERSON_OPTIONS,
      ...PAGE_OPTIONS,
      status: { value: "status", summary: "Only active or suspended people", complete: Human.shape.status.options },
      name: { value: "prefix", summary: "Only people whose name begins with this, in any case" },
      role: { value: "role", summary: "Only users or admins", complete: Human.shape.role.options },
    },
    examples: { "svc admin people list --status suspended --all": "Show all suspended people" },
    async run(ctx, { options }) {
      const { status, name, role } = options;
      const admin = connectAsAdmin(ctx, options);
      const { rows: people, pagination } = await readPages(
        options,
        (page) => admin.people({ status, name, role, ...page }),
        (page) => page.people,
      );
      ctx.out.list({ people, pagination }, people, "No people here.", [
        { head: "ID", rank: 3, of: ({ id }) => idCell(id) },
        { head: "NAME", of: ({ displayName }) => displayName },
        { head: "ROLE", rank: 2, of: ({ role }) => role },
        { head: "STATUS", rank: 1, of: ({ status }) => status },
        { head: "CREATED", rank: 2, of: ({ createdAt }) => ctx.out.time(createdAt) },
      ]);
      const words = ["admin", "people", "list", ...optionWords({ status, name, role })];
      hintNextPage(ctx, words, options, pagination);
    },
  }),
  command({
    path: ["admin", "people", "show"],
    summary: "Show a person, with its API keys and the number of its agents",
    args: { person: PERSON },
    options: PERSON_OPTIONS,
    examples: { "svc admin people show 01KHYQ5H00AAAAAAAAAAAAAAAA": "Show one account" },
    async run(ctx, { args, options }) {
      const admin = connectAsAdmin(ctx, options);
      const answer = await admin.person(await personIdOf(admin, args.person));
      const { person, apiKeys, agents, lastUsedAt } = answer;
      ctx.out.result({ ...answer }, [
        ctx.out.bold(person.displayName),
        ...fields([
          ["id", person.id],
          ["human", person.did],
          ["role", person.role],
          ["status", person.status],
          ["suspended", person.suspendedAt ?? undefined],
          ["created", person.createdAt],
          ["last use", lastUsedAt],
          ["agents", `${agents.active} active, ${agents.revoked} revoked`],
        ]),
        "",
        ...ctx.out.table([
          { head: "API KEY", rank: 3, of: ({ id }) => idCell(id) },
          { head: "NAME", of: ({ name }) => name },
          { head: "STATUS", rank: 1, of: ({ status }) => status },
          { head: "LAST USED", rank: 2, of: ({ lastUsedAt }) => ctx.out.time(lastUsedAt) },
        ], apiKeys),
      ]);
    },
  }),
  command({
    path: ["admin", "people", "suspend"],
    summary: "Suspend a person: their API keys and agents stop working until you restore them",
    details: [
      "Identity tokens stay valid for third parties. To stop one agent everywhere, use svc admin agents revoke.",
    ],
    args: { person: PERSON },
    options: { ...PERSON_OPTIONS, reason: REASON, yes: YES },
    examples: {
      'svc admin people suspend 01KHYQ5H00AAAAAAAAAAAAAAAA --reason "stolen laptop"':
        "Stop an account now, and decide later",
    },
    async run(ctx, { args, options }) {
      checkReason(options.reason);
      const admin = connectAsAdmin(ctx, options);
      const id = await personIdOf(admin, args.person);
      const { person: { displayName, role } } = await admin.person(id);
      if (role === "admin") throw new ApiError(409, "ADMIN_SUSPEND_FORBIDDEN", `${displayName} is an admin`, null);
      const question = `Suspend ${displayName} (${id})? Its API keys and agents stop.`;
      if (!await isConfirmed(ctx, options.yes, question)) return EXIT.failed;
      ctx.out.doing(`Suspending ${displayName}`);
      const { person, complete } = await admin.suspend(id, options.reason);
      ctx.out.result({ person, complete }, `${person.displayName} (${id}) is suspended.`);
      noteRest(ctx, complete);
      const more = registryWords(ctx, options);
      ctx.out.next(["admin", "people", "restore", id, ...more], { when: "to end the suspension" });
    },
  }),
  command({
    path: ["admin", "people", "restore"],
    summary: "End the suspension of a person",
    details: [
      "The person's connectors ask every 2 min, so they come back by themselves. Sessions that were ended otherwise stay ended.",
    ],
    args: { person: PERSON },
    options: {
      ...PERSON_OPTIONS,
      reason: REASON,
      yes: { summary: "Accepted as with suspend; this command asks nothing" },
    },
    examples: { "svc admin people restore 01KHYQ5H00AAAAAAAAAAAAAAAA": "Let an account work again" },
    async run(ctx, { args, options }) {
      checkReason(options.reason);
      const admin = connectAsAdmin(ctx, options);
      const id = await personIdOf(admin, args.person);
      ctx.out.doing(`Restoring ${id}`);
      const { person, complete } = await admin.restore(id, options.reason);
      ctx.out.result({ person, complete }, [
        `${person.displayName} (${id}) is active.`,
        `Their connectors come back within ${OPERATOR_RETRY_MS / 60_000} min, or at once when they are started again.`,
      ]);
      noteRest(ctx, complete);
    },
  }),
];

function noteRest(ctx: Context, complete: boolean): void {
  if (!complete) ctx.out.note("The registry is still changing the sessions of its agents. It finishes by itself.");
}

function checkReason(reason: string | undefined): void {
  if (reason === undefined || parseReason(reason) !== null) return;
  throw new CliError("CLI_USAGE", `--reason must be 1 to ${LIMITS.reason} characters of text`);
}
