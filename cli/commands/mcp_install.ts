/** `svc mcp install`: gives the tools of `svc mcp` to the program that runs a model. */
import { resolve } from "node:path";
import { AGENT_ARG, command } from "../command_line/command.ts";
import { didYouMean } from "../../shared/did_you_mean.ts";
import { CliError } from "../errors.ts";
import { HOST_IDS, SCOPES, WAKES } from "../hosts/table.ts";
import { fields } from "../terminal/output.ts";
import { chosenAgent } from "../agents/agent_store.ts";
import { ownCommand } from "../own_command.ts";

export const COMMANDS = [
  command({
    path: ["mcp", "install"],
    summary: "Give a coding agent the tools of an agent: writes its configuration file",
    details: [
      "Only the entry of the agent changes in that file; a copy of the text before is kept for --undo. Safe to run again.",
      "The entry holds no secret. For a host that is not in the list, add by hand what --print shows.",
    ],
    args: { agent: AGENT_ARG },
    options: {
      for: { value: "host", summary: `One of ${HOST_IDS.join(", ")}`, required: true, complete: HOST_IDS },
      scope: { value: "scope", summary: "user: every project; project: this folder (default user)", complete: SCOPES },
      name: { value: "key-name", summary: "Name of the entry in the host's file (default: svc-<agent>)" },
      wake: {
        value: "way",
        summary: "Wake the model when a message arrives: auto, inbox (Claude Code, Codex) or hook (Claude Code)",
        complete: WAKES,
      },
      "read-only": { summary: "Only tools that change nothing: no sending, no pairing" },
      peers: { value: "aliases", summary: "Only these peers, separated by commas" },
      print: { summary: "Show the file and the entry, and write nothing" },
      undo: { summary: "Remove the entry, if it is the one that svc wrote" },
    },
    examples: {
      "svc mcp install --for claude-code --wake auto": "Use the only agent of this machine in Claude Code",
      "svc mcp install alpha --for cursor --peers beta": "Let Cursor talk with beta only",
      "svc mcp install alpha --for codex --undo": "Remove the entry from Codex",
    },
    async run(ctx, { args, options }) {
      const host = oneOf(HOST_IDS, options.for, "host");
      const scope = oneOf(SCOPES, options.scope ?? "user", "scope");
      const wake = options.wake === undefined ? undefined : oneOf(WAKES, options.wake, "way of --wake");
      if (options.print && options.undo) throw new CliError("CLI_USAGE", "--print and --undo exclude each other");
      const hosts = await import("../hosts/install.ts");
      const folder = await chosenAgent(ctx, args.agent);
      const agent = folder.name;
      const wish = {
        host,
        scope,
        name: options.name,
        wake,
        readOnly: options["read-only"],
        peers: options.peers,
        // To wake Codex, `svc mcp` starts its program, which the permissions `connector` do not allow.
        own: scope === "project" ? ["svc"] : ownCommand(host === "codex" && wake !== undefined ? "svc" : "connector"),
        project: resolve(ctx.cwd ?? "."),
      };
      const { installEntry, planEntry, removeInstalled } = hosts;
      const work = options.print ? planEntry : options.undo ? removeInstalled : installEntry;
      const { hostName, name, command, args: words, entry, hook, messages, then } = await work(ctx, folder, wish);
      if (scope === "project" && !options.undo && !await hosts.isOnPath(ctx)) {
        ctx.out.warn("PATH has no command svc, which the entry of a project starts");
      }
      const data = { agent, host, scope, name, command, args: words, path: entry.path, changed: entry.changed };
      const of = hook && { path: hook.path, changed: hook.changed };
      const files = [entry, ...hook === null ? [] : [hook]];
      if (options.print) {
        const parts = files.map(({ path, fragment }) => ({ path, text: fragment }));
        const lines = parts.flatMap(({ path, text }, i) => [...i > 0 ? [""] : [], `${path}:`, ...text.split("\n")]);
        ctx.out.result({ ...data, files: parts }, lines);
        return;
      }
      const changed = files.filter((file) => file.changed).map(({ path }) => path);
      if (options.undo) {
        const text = changed.length === 0 ? "There is nothing to undo." : ctx.out.bold(`Removed: ${name}.`);
        ctx.out.result({ ...data, hook: of }, [text, ...changed.map((path) => `  from  ${path}`)]);
        return;
      }
      if (messages.platform !== "inbox") {
        ctx.out.warn(
          `Messages for ${agent} go to ${messages.platform}, and the tools cannot read them; to change that: ` +
            `svc install --for inbox --agent-name ${agent}`,
        );
      }
      ctx.out.result({ ...data, hook: of, platform: messages.platform }, [
        ctx.out.bold(`${hostName} has the tools of ${agent} as ${name}.`),
        ...fields([["file", entry.path], ["hook", hook?.path], ["changed", changed.join(", ") || "nothing"]]),
      ]);
      if (messages.isNew) {
        ctx.out.note(`Messages for ${agent} stay in its connector until they are read: the platform is inbox now.`);
      }
      ctx.out.note(then);
    },
  }),
];

function oneOf<T extends string>(known: readonly T[], given: string, what: string): T {
  const found = known.find((one) => one === given);
  if (found !== undefined) return found;
  const hint = didYouMean(given, known) || ` Known: ${known.join(", ")}.`;
  throw new CliError("CLI_USAGE", `There is no ${what} "${given}".${hint}`);
}
