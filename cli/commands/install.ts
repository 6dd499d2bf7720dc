/** `svc install`: detects or selects the runtime and saves it for all agents or for one agent (D-227). */
import { command } from "../command_line/command.ts";
import { ensureConfigDir } from "../files/config_dir.ts";
import { CliError } from "../errors.ts";
import { fields, table } from "../terminal/output.ts";
import { FOR, parsePlatform, parsePort, placeOf, warnOfOwnSettings, WHICH_AGENT } from "./provider_world.ts";

export const INSTALL_COMMANDS = [
  command({
    path: ["install"],
    summary: "Detect or select the agent runtime and save the choice for the connector",
    details: ["Does not change the runtime; svc provider setup does. Safe to run again."],
    args: {},
    options: {
      for: FOR,
      "agent-name": WHICH_AGENT,
      port: { value: "port", summary: "Port on which the runtime accepts messages" },
      token: { value: "token", summary: "Token that the runtime requires", env: "SVC_HOOK_TOKEN", secret: true },
      list: { summary: "Show detected runtimes and save nothing" },
    },
    examples: [
      { run: "svc install", purpose: "Use the detected runtime" },
      { run: "svc install --for openclaw", purpose: "Use OpenClaw regardless of what is detected" },
      { run: "svc install --list", purpose: "List detected runtimes with the evidence" },
    ],
    async run(ctx, { options }) {
      const [{ detectAll, likeliest }, { thisMachine }] = await Promise.all([
        import("../platforms/detection.ts"),
        import("../platforms/local_machine.ts"),
      ]);
      const wanted = options.for === undefined ? null : parsePlatform(options.for);
      const port = parsePort(options.port, "--port");
      ctx.out.doing("Looking for agent runtimes");
      const found = await detectAll(thisMachine(ctx));
      if (options.list) {
        const rows = found.map((
          { platform, confidence, reasons },
        ) => [platform, confidence, reasons.join("; ") || null]);
        ctx.out.result({ platforms: found }, table(["PLATFORM", "CONFIDENCE", "BECAUSE"], rows));
        return;
      }
      const chosen = wanted === null ? likeliest(found) : found.find(({ platform }) => platform === wanted) ?? null;
      if (chosen === null) {
        const likely = found.filter(({ confidence }) => confidence !== "none").map(({ platform }) => platform);
        const what = likely.length === 0
          ? "No agent runtime was found"
          : `Several runtimes are equally likely: ${likely.join(", ")}`;
        throw new CliError("CLI_USAGE", `${what}. Name one with --for; generic means any HTTP address`);
      }
      const [files, place] = await Promise.all([
        import("../connector/delivery/runtime_file.ts"),
        placeOf(ctx, options["agent-name"]),
      ]);
      const { settings } = place;
      const saved = files.readRuntimeFileIn(settings);
      const before = saved?.platform === chosen.platform ? saved : files.emptyRuntimeFile(chosen.platform);
      const file = {
        ...before,
        baseUrl: before.baseUrl ?? chosen.baseUrl ?? null,
        hookPath: before.hookPath ?? chosen.hookPath ?? null,
        webhookPort: port ?? before.webhookPort,
        webhookToken: options.token ?? before.webhookToken,
      };
      const target = files.runtimeTarget({ env: () => undefined }, file, "", { "allow-insecure": true });
      await ensureConfigDir(ctx);
      await settings.writeJson(files.RUNTIME_FILE, file);
      await warnOfOwnSettings(ctx, place);
      const { platform, confidence, reasons } = chosen;
      const url = target.baseUrl + target.hookPath;
      const hasToken = target.hookToken !== null;
      const agent = options["agent-name"] ?? null;
      ctx.out.result({ agent, platform, confidence, reasons, url, hasToken, path: settings.path }, [
        ctx.out.bold(`Messages for ${agent ?? "every agent on this machine"} go to ${chosen.name}.`),
        ...fields([
          ["at", url],
          ["because", reasons.join("; ") || "it was named with --for"],
          ["token", hasToken ? "saved" : "none"],
          ["saved in", settings.path],
        ]),
      ]);
      ctx.out.next(["provider", "setup", "--for", platform, ...(agent === null ? [] : ["--agent-name", agent])]);
    },
  }),
];
