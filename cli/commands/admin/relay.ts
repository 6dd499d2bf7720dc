/** `svc admin relay …` and `svc admin overview`: what the proxy knows (D-173, D-175). */
import type { Refusal } from "../../../shared/protocol/api/relay_admin.ts";
import { command, PERSON_OPTIONS } from "../../command_line/command.ts";
import { parseCount } from "../../command_line/numbers.ts";
import { CliError } from "../../errors.ts";
import { table } from "../../terminal/output.ts";
import { hintNextPage, PAGE_OPTIONS, readPages } from "./pages.ts";

/** Most refusals of one command. */
const MAX_REFUSALS = 100;
const REFUSALS = 20;

export const ADMIN_RELAY_COMMANDS = [
  command({
    path: ["admin", "relay", "queues"],
    summary: "List the recipients that have queued messages, with their numbers",
    args: {},
    options: { ...PERSON_OPTIONS, ...PAGE_OPTIONS },
    examples: [{ run: "svc admin relay queues --all", purpose: "Show every recipient for whom messages wait" }],
    async run(ctx, { options }) {
      const { connectToRelay } = await import("../../account/relay_access.ts");
      const relay = await connectToRelay(ctx, options);
      const pages = await readPages(options, (page) => relay.queues(page));
      const queues = pages.flatMap((page) => page.queues);
      const rows = queues.map(({ recipientAgentDid, messages, senders, oldestExpiresAt }) => [
        String(messages),
        String(senders),
        oldestExpiresAt,
        recipientAgentDid,
      ]);
      ctx.out.result(
        { queues, pagination: pages.at(-1)?.pagination },
        rows.length === 0
          ? "No queued messages here."
          : table(["MESSAGES", "SENDERS", "OLDEST EXPIRES", "RECIPIENT"], rows),
      );
      hintNextPage(ctx, ["admin", "relay", "queues"], pages);
    },
  }),
  command({
    path: ["admin", "relay", "refusals"],
    summary: "List the newest requests that the proxy refused",
    details: [
      "The proxy keeps the newest refusals of each code in memory. They end with its process, and with several",
      "instances the list is that of the one that answers.",
    ],
    args: {},
    options: {
      ...PERSON_OPTIONS,
      limit: { value: "count", summary: `Most refusals to list, 1 to ${MAX_REFUSALS} (default ${REFUSALS})` },
      request: { value: "id", summary: "Only refusals of this request" },
      did: { value: "did", summary: "Only refusals of the agent with this DID" },
    },
    examples: [{ run: "svc admin relay refusals --limit 5", purpose: "Show the five newest refusals" }],
    async run(ctx, { options }) {
      const limit = String(parseCount(options.limit ?? `${REFUSALS}`, "--limit", MAX_REFUSALS));
      const { connectToRelay } = await import("../../account/relay_access.ts");
      const relay = await connectToRelay(ctx, options);
      const list = await relay.refusals({ limit, requestId: options.request, agentDid: options.did });
      const { refusals, instance, since } = list;
      ctx.out.result(
        { refusals, instance, since },
        refusals.length === 0 ? `No refusals since ${since}.` : refusalTable(refusals),
      );
      const [first] = refusals;
      if (first !== undefined) ctx.out.next(["explain", first.code]);
    },
  }),
  command({
    path: ["admin", "relay", "delivery"],
    summary: "Show what happened to a message, by its request ID",
    details: [
      "The proxy reads it from its records of the message, which it keeps for a limited time. A message that is queued",
      "and no longer waiting was handed over to the recipient's connector.",
    ],
    args: { requestId: { summary: "Request ID of the message, from svc sent or the log" } },
    options: PERSON_OPTIONS,
    examples: [{
      run: "svc admin relay delivery 01KHYQ5H00AAAAAAAAAAAAAAAA",
      purpose: "Show the timeline of a message",
    }],
    async run(ctx, { args: { requestId }, options }) {
      const { isRequestId } = await import("../../../shared/protocol/ids.ts");
      if (!isRequestId(requestId)) {
        throw new CliError("CLI_USAGE", "this is not a request ID: 8 to 128 of A-Z, a-z, 0-9, '.', '_', ':' and '-'");
      }
      const { connectToRelay } = await import("../../account/relay_access.ts");
      const { deliveries } = await (await connectToRelay(ctx, options)).deliveries(requestId);
      ctx.out.result(
        { requestId, deliveries },
        deliveries.length === 0
          ? "The proxy has no record of a message with this request ID."
          : deliveries.flatMap(({ senderAgentDid, recipientAgentDid, state, events }, i) => [
            ...i === 0 ? [] : [""],
            `${ctx.out.bold(state)}: from ${senderAgentDid} to ${recipientAgentDid}`,
            ...table(["AT", "EVENT", "DETAIL"], events.map(({ at, event, detail }) => [at, event, detail ?? null])),
          ]),
      );
    },
  }),
  command({
    path: ["admin", "overview"],
    summary: "Show the services, connected agents, queues and newest refusals",
    args: {},
    options: PERSON_OPTIONS,
    examples: [{ run: "svc admin overview", purpose: "Show at a glance whether the network works" }],
    async run(ctx, { options }) {
      const { adminOverview, overviewLines } = await import("../../doctor/admin_overview.ts");
      const overview = await adminOverview(ctx, options);
      const { relay } = overview;
      ctx.out.result({ ...overview }, [
        ...overviewLines(overview),
        ...relay === null || relay.refusals.length === 0 ? [] : ["", ...refusalTable(relay.refusals)],
      ]);
    },
  }),
];

function refusalTable(refusals: readonly Refusal[]): string[] {
  return table(
    ["AT", "CODE", "CHECK", "ROUTE", "REQUEST", "AGENT"],
    refusals.map(({ at, code, check, method, route, requestId, agentDid }) => [
      at,
      code,
      check === null ? null : String(check),
      route === null ? null : `${method} ${route}`,
      requestId,
      agentDid,
    ]),
  );
}
