/** `svc install`: detects or selects the runtime and saves it for all agents or for one agent. */
import { parsePort } from "../../command_line/numbers.ts";
import { command } from "../../command_line/command.ts";
import { ensureConfigDir } from "../../files/config_dir.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import { YES } from "../connector/connector_start.ts";
import { fields } from "../../terminal/output.ts";
import { agreeToChange, FOR, parsePlatform, placeOf, warnOfOwnSettings, WHICH_AGENT } from "./provider_world.ts";
import { detectAll, likeliest } from "../../platforms/table.ts";
import { thisMachine } from "../../platforms/local_machine.ts";

function nextStarts(ctx: Context, agents: readonly string[]): void {
  for (const name of agents) ctx.out.next(["connector", "start", name]);
  if (agents.length === 0) ctx.out.next(["agent", "create", "my-agent"]);
}

export const COMMANDS = [
  command({
    path: ["install"],
    summary: "Detect or select the agent runtime and save the choice for the connector",
    details: ["Does not change the runtime; svc provider setup does. Safe to run again."],
    options: {
      for: FOR,
      "agent-name": WHICH_AGENT,
      port: { value: "port", summary: "Port on which the runtime accepts messages" },
      token: { value: "token", summary: "Token that the runtime requires", env: "SVC_HOOK_TOKEN", secret: true },
      ...YES,
      list: { summary: "Show detected runtimes and save nothing" },
    },
    examples: {
      "svc install": "Use the detected runtime",
      "svc install --for openclaw": "Use OpenClaw regardless of what is detected",
      "svc install --for inbox": "No runtime: svc inbox or a program reads the messages",
      "svc install --list": "List detected runtimes with the evidence",
    },
    async run(ctx, { options }) {
      const wanted = options.for === undefined ? null : parsePlatform(options.for);
      const port = parsePort(options.port, "--port");
      ctx.out.doing("Looking for agent runtimes");
      const found = await detectAll(thisMachine(ctx));
      if (options.list) {
        ctx.out.result(
          { platforms: found },
          ctx.out.table([
            { head: "PLATFORM", of: ({ platform }) => platform },
            { head: "CONFIDENCE", of: ({ confidence }) => confidence },
            { head: "BECAUSE", rank: 1, of: ({ reasons }) => reasons.join("; ") || null },
          ], found),
        );
        return;
      }
      const chosen = wanted === null ? likeliest(found) : found.find(({ platform }) => platform === wanted) ?? null;
      if (chosen === null) {
        const likely = found.filter(({ confidence }) => confidence !== "none").map(({ platform }) => platform);
        const what = likely.length === 0
          ? "No agent runtime was found"
          : `Several runtimes are equally likely: ${likely.join(", ")}`;
        throw new CliError(
          "CLI_USAGE",
          `${what}. Name one with --for; generic means any HTTP address, inbox means none`,
        );
      }
      const [files, place] = await Promise.all([
        import("../../connector/runtime/runtime_file.ts"),
        placeOf(ctx, options["agent-name"]),
      ]);
      if (chosen.platform === "inbox" && port !== undefined) {
        throw new CliError("CLI_USAGE", "--port is the port of a runtime, and the platform inbox has none");
      }
      const { settings } = place;
      const saved = files.readRuntimeFileIn(settings);
      const before = saved?.platform === chosen.platform ? saved : files.emptyRuntimeFile(chosen.platform);
      const file = {
        ...before,
        baseUrl: before.baseUrl ?? chosen.baseUrl ?? null,
        hookPath: before.hookPath ?? chosen.hookPath ?? null,
        webhookPort: port ?? before.webhookPort,
        // No token is saved for the inbox, because one in SVC_HOOK_TOKEN may be for other agents.
        webhookToken: chosen.platform === "inbox" ? null : options.token ?? before.webhookToken,
      };
      const target = files.runtimeTarget({ env: () => undefined, allowInsecure: true }, file);
      await ensureConfigDir(ctx);
      await agreeToChange(ctx, place, target, options.yes);
      await settings.writeJson(files.RUNTIME_FILE, file);
      await warnOfOwnSettings(ctx, place);
      const { platform, confidence, reasons } = chosen;
      const url = target && target.baseUrl + target.hookPath;
      const hasToken = target !== null && target.hookToken !== null;
      const agent = options["agent-name"] ?? null;
      const whose = agent ?? "every agent on this machine";
      ctx.out.result({ agent, platform, confidence, reasons, url, hasToken, path: settings.path }, [
        ctx.out.bold(
          target === null
            ? `Messages for ${whose} stay in its connector until svc inbox or a program reads them.`
            : `Messages for ${whose} go to ${chosen.name}.`,
        ),
        ...fields([
          ["at", url ?? undefined],
          ["because", reasons.join("; ") || "it was named with --for"],
          ["token", target === null ? undefined : hasToken ? "saved" : "none"],
          ["saved in", settings.path],
        ]),
      ]);
      if (target === null) return nextStarts(ctx, agent === null ? place.agents : [agent]);
      ctx.out.next(["provider", "setup", "--for", platform, ...(agent === null ? [] : ["--agent-name", agent])]);
    },
  }),
];
