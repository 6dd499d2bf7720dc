/** `svc log`: what an agent and its peers have written to each other. */
import { AGENT_OPTION, command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { parseCount, parseDuration } from "../command_line/numbers.ts";
import { CliError, EXIT } from "../errors.ts";
import { isConfirmed } from "./admin/pages.ts";

/** Messages that are printed: their texts are in memory. */
const PRINTED = 50, PRINTED_MAX = 1_000;

export const COMMANDS = [
  command({
    path: ["log"],
    summary: "Print what the agent and its peers have written, in order",
    details: [
      "Texts of read and sent messages are kept 7 days, or as many as svc profile set historyDays says. A message that",
      "went to a runtime has no text here.",
    ],
    args: { peer: { summary: "Only messages with this peer, an alias or a DID", optional: true, complete: "peers" } },
    options: {
      ...AGENT_OPTION,
      since: { value: "time", summary: "Only messages of this time, for example 2d, 3h or 30min" },
      search: { value: "text", summary: "Only messages with this text, without regard to case" },
      limit: { value: "count", summary: `Most messages to print, 1 to ${PRINTED_MAX} (default ${PRINTED})` },
      export: { summary: "Print all of them as JSON lines, oldest first; the last line counts them" },
      forget: { summary: "Blank the texts of read messages and of sent ones that have ended" },
      yes: { summary: "Do not ask for confirmation of --forget" },
      "allow-insecure": REGISTRY_OPTIONS["allow-insecure"],
    },
    examples: {
      "svc log beta --since 2d": "What was said with beta in two days",
      "svc log --search port": "Every message with the word port",
      "svc log --export": "All texts as JSON lines, to keep them elsewhere",
    },
    async run(ctx, { args: { peer }, options }) {
      const { agent, since, search, limit, forget, yes } = options;
      const isAll = since === undefined && search === undefined && limit === undefined;
      if (forget && (options.export || !isAll)) {
        throw new CliError("CLI_USAGE", "--forget is for all messages of a peer, or of all; it takes no other option");
      }
      if (options.export && limit !== undefined) {
        throw new CliError("CLI_USAGE", "--export prints all; --limit is not for it");
      }
      const chosen = {
        agent,
        peer,
        sinceMs: since === undefined ? undefined : parseDuration(since, "--since"),
        search,
        limit: parseCount(limit ?? `${PRINTED}`, "--limit", PRINTED_MAX),
        allowInsecure: options["allow-insecure"],
      };
      const { exportLog, forgetLog, printLog } = await import("../messages/log.ts");
      if (options.export) return await exportLog(ctx, chosen);
      if (!forget) return await printLog(ctx, chosen);
      const whose = peer === undefined ? "all peers" : peer;
      if (!await isConfirmed(ctx, yes, `Blank the texts with ${whose}? They cannot be read again.`)) return EXIT.failed;
      const forgotten = await forgetLog(ctx, chosen);
      ctx.out.result({ forgotten }, `${forgotten} ${forgotten === 1 ? "text is" : "texts are"} blanked.`);
    },
  }),
];
