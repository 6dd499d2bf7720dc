/** `svc admin relay …` and `svc admin issuers`: what the proxy knows. */
import type { Refusal } from "../../../shared/protocol/api/relay_admin.ts";
import { isRequestId, REQUEST_ID_FORM } from "../../../shared/protocol/ids.ts";
import { connectAsAdmin, connectToRelay } from "../../account/registry_access.ts";
import type { AdminClient } from "../../client/admin_client.ts";
import { command, PERSON_OPTIONS } from "../../command_line/command.ts";
import { parseCount } from "../../command_line/numbers.ts";
import { formatDuration } from "../../terminal/times.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import type { Column } from "../../terminal/tables.ts";
import { didOf, hintNextPage, nameCell, namesOf, PAGE_OPTIONS, readPages } from "./pages.ts";

const MAX_REFUSALS = 100;
const REFUSALS = 20;

export const COMMANDS = [
  command({
    path: ["admin", "relay", "queues"],
    summary: "List the recipients that have queued messages, with their numbers",
    options: { ...PERSON_OPTIONS, ...PAGE_OPTIONS },
    examples: { "svc admin relay queues --all": "Show every recipient for whom messages wait" },
    async run(ctx, { options }) {
      const relay = await connectToRelay(ctx, options), admin = connectAsAdmin(ctx, options);
      const { rows: queues, pagination } = await readPages(options, relay.queues, (page) => page.queues);
      const names = await namesShown(ctx, admin, queues.map(({ recipientAgentDid }) => recipientAgentDid));
      ctx.out.list({ queues, pagination }, queues, "No queued messages here.", [
        { head: "MESSAGES", of: ({ messages }) => String(messages) },
        { head: "SENDERS", rank: 2, of: ({ senders }) => String(senders) },
        { head: "OLDEST EXPIRES", rank: 1, of: ({ oldestExpiresAt }) => ctx.out.time(oldestExpiresAt) },
        { head: "RECIPIENT", of: ({ recipientAgentDid }) => nameCell(names, recipientAgentDid) },
      ]);
      hintNextPage(ctx, ["admin", "relay", "queues"], options, pagination);
    },
  }),
  command({
    path: ["admin", "issuers"],
    summary: "List the other registries whose agents have pairs here",
    details: [
      "KEYS and LIST are the ages of what the instance that answers has read. To leave a registry out, set FEDERATION",
      "and restart the server: its agents are refused, but their pairs stay.",
    ],
    options: PERSON_OPTIONS,
    examples: { "svc admin issuers": "Show from which servers agents come" },
    async run(ctx, { options }) {
      const { issuers, areAll } = await (await connectToRelay(ctx, options)).issuers();
      const age = (seconds: number | null) => seconds === null ? null : formatDuration(seconds * 1_000);
      ctx.out.list({ issuers, areAll }, issuers, "No agent of another server has a pair here.", [
        { head: "SERVER", of: ({ authority }) => authority },
        { head: "AGENTS", of: ({ agents }) => String(agents) },
        { head: "PAIRS", rank: 2, of: ({ pairs }) => String(pairs) },
        { head: "ALLOWED", rank: 1, of: ({ allowed }) => allowed ? "yes" : "no" },
        { head: "KEYS", rank: 3, of: ({ keysAgeSeconds }) => age(keysAgeSeconds) },
        { head: "LIST", rank: 3, of: ({ listAgeSeconds }) => age(listAgeSeconds) },
        { head: "PROBLEM", rank: 1, of: ({ problem }) => problem },
      ]);
      if (!areAll) ctx.out.note("There are more agents of other servers than are counted here.");
    },
  }),
  command({
    path: ["admin", "relay", "refusals"],
    summary: "List the newest requests that the proxy refused",
    details: [
      "The proxy keeps the newest refusals of each code in memory. They end with its process, and with several",
      "instances the list is that of the one that answers.",
    ],
    options: {
      ...PERSON_OPTIONS,
      limit: { value: "count", summary: `Most refusals to list, 1 to ${MAX_REFUSALS} (default ${REFUSALS})` },
      request: { value: "id", summary: "Only refusals of this request" },
      did: { value: "agent", summary: "Only refusals of this agent, by name, name@person, ID or DID" },
    },
    examples: { "svc admin relay refusals --limit 5": "Show the five newest refusals" },
    async run(ctx, { options }) {
      const limit = parseCount(options.limit ?? `${REFUSALS}`, "--limit", MAX_REFUSALS);
      const relay = await connectToRelay(ctx, options), admin = connectAsAdmin(ctx, options);
      const agentDid = options.did === undefined ? undefined : await didOf(admin, options.did, "agent");
      const { refusals, instance, since } = await relay.refusals({ limit, requestId: options.request, agentDid });
      const columns = await refusalColumns(ctx, admin, refusals);
      ctx.out.list({ refusals, instance, since }, refusals, `No refusals since ${since}.`, columns);
      const [first] = refusals;
      if (first !== undefined) ctx.out.next(["explain", first.code]);
    },
  }),
  command({
    path: ["admin", "relay", "delivery"],
    summary: "Show what happened to a message, by its request ID",
    details: [
      "The proxy reads it from its records of the message, which it keeps for a limited time. handed_over means that",
      "the recipient's connector has the queued message.",
    ],
    args: { requestId: { summary: "Whole request ID of the message, from svc sent --wide or the log" } },
    options: PERSON_OPTIONS,
    examples: { "svc admin relay delivery 01KHYQ5H00AAAAAAAAAAAAAAAA": "Show the timeline of a message" },
    async run(ctx, { args: { requestId }, options }) {
      if (!isRequestId(requestId)) {
        // The terminal shows only the end of an ID, which fits messages of many agents.
        const fix = "Give the whole ID, which svc sent --wide shows.";
        throw new CliError("CLI_USAGE", `this is not a request ID: ${REQUEST_ID_FORM}`, { fix });
      }
      const relay = await connectToRelay(ctx, options), admin = connectAsAdmin(ctx, options);
      const [{ deliveries }, { refusals }] = await Promise.all([
        relay.deliveries(requestId),
        relay.refusals({ requestId, limit: MAX_REFUSALS }),
      ]);
      const names = await namesShown(
        ctx,
        admin,
        deliveries.flatMap((one) => [one.senderAgentDid, one.recipientAgentDid]),
      );
      const idOf = (did: string) => ctx.out.shown(nameCell(names, did));
      const lines = deliveries.flatMap(({ senderAgentDid, recipientAgentDid, state, events }) => [
        `${ctx.out.bold(state)}: from ${idOf(senderAgentDid)} to ${idOf(recipientAgentDid)}`,
        ...ctx.out.table([
          { head: "AT", of: ({ at }) => at },
          { head: "EVENT", of: ({ event }) => event },
          { head: "DETAIL", rank: 1, of: ({ detail }) => detail ?? null },
        ], events),
        "",
      ]);
      if (refusals.length > 0) lines.push(...ctx.out.table(await refusalColumns(ctx, admin, refusals), refusals));
      if (lines.length === 0) {
        const kept = "Deliveries are kept 8 days, refusals until the server restarts";
        throw new CliError("CLI_MESSAGE_UNKNOWN", `No trace of ${requestId}. ${kept}`);
      }
      ctx.out.result({ requestId, deliveries, refusals }, lines);
    },
  }),
];

/** The names of agents where the output shows names. */
function namesShown({ out }: Context, admin: AdminClient, dids: readonly (string | null)[]) {
  return namesOf(admin, out.showsIds ? [] : dids);
}

async function refusalColumns(
  ctx: Context,
  admin: AdminClient,
  refusals: readonly Refusal[],
): Promise<Column<Refusal>[]> {
  const { out } = ctx, names = await namesShown(ctx, admin, refusals.map(({ agentDid }) => agentDid));
  return [
    { head: "AT", rank: 1, of: ({ at }) => out.time(at) },
    { head: "CODE", of: ({ code }) => code },
    { head: "CHECK", rank: 3, of: ({ check }) => check === null ? null : String(check) },
    { head: "ROUTE", rank: 4, of: ({ method, route }) => route === null ? null : `${method} ${route}` },
    // Shown whole, because the proxy does not find a delivery by the end of its request ID.
    { head: "REQUEST", rank: 3, of: ({ requestId }) => requestId },
    { head: "AGENT", rank: 2, of: ({ agentDid }) => nameCell(names, agentDid) },
  ];
}
