/** `svc provider setup`: changes the runtime's settings so that it accepts messages, and restores them with --undo. */
import { parsePort } from "../../command_line/numbers.ts";
import type { AgentFolder } from "../../agents/agent_store.ts";
import { command } from "../../command_line/command.ts";
import { ensureConfigDir } from "../../files/config_dir.ts";
import { CliError } from "../../errors.ts";
import type { PlatformId } from "../../platforms/platform.ts";
import { fields } from "../../terminal/output.ts";
import { YES } from "../connector/connector_start.ts";
import {
  agreeToChange,
  FOR,
  parsePlatform,
  placeOf,
  providerOf,
  warnOfOwnSettings,
  WHICH_AGENT,
} from "./provider_world.ts";
import { presentPeers, readPeers } from "../../connector/peers/peers.ts";
import { applyChange, hasBackup, undoChanges } from "../../platforms/setup.ts";
import { makeToken } from "../../connector/local_api/discovery_file.ts";
import { emptyRuntimeFile, RUNTIME_FILE, runtimeTarget } from "../../connector/runtime/runtime_file.ts";
import { connectorOf } from "../connector/connector.ts";

export const COMMANDS = [
  command({
    path: ["provider", "setup"],
    summary: "Configure an agent's runtime to accept messages; the previous settings are backed up",
    details: ["--undo restores the backup unless another program has changed the files since. Safe to run again."],
    options: {
      for: { ...FOR, required: true },
      "agent-name": WHICH_AGENT,
      "platform-base-url": { value: "url", summary: "Runtime URL" },
      "platform-state-dir": { value: "dir", summary: "State directory of the runtime", complete: "files" },
      "webhook-host": { value: "host", summary: "Host on which the runtime accepts messages" },
      "webhook-port": { value: "port", summary: "Port on which the runtime accepts messages" },
      "webhook-token": {
        value: "token",
        summary: "Token that the runtime requires (default: generated)",
        env: "SVC_HOOK_TOKEN",
        secret: true,
      },
      "connector-base-url": {
        value: "url",
        summary: "Local API URL of the connector (default: from its discovery file)",
      },
      "connector-url": { value: "url", summary: "Alias of --connector-base-url" },
      "relay-transform-peers-path": {
        value: "file",
        summary: "Write a copy of peers.json to this file",
        complete: "files",
      },
      ...YES,
      undo: { summary: "Restore the runtime's settings from the backup" },
    },
    examples: {
      "svc provider setup --for openclaw": "Configure OpenClaw to accept messages",
      "svc provider setup --for openclaw --undo": "Restore the previous settings",
    },
    async run(ctx, { options }) {
      const id = parsePlatform(options.for);
      const place = await placeOf(ctx, options["agent-name"]);
      const { settings } = place, peersPath = options["relay-transform-peers-path"];
      // Before anything is written, because without a name it may be refused.
      const peersFrom = peersPath === undefined ? null : (await connectorOf(ctx, options["agent-name"])).folder;
      const named = options["agent-name"] === undefined ? null : place.folder;
      const { file, machine, platform } = await providerOf(ctx, options, named);
      const agent = named?.name ?? null;
      if (options.undo) {
        // The backup of settings for a single agent is in that agent's folder.
        const own = place.folder !== null && !hasBackup(settings) && hasBackup(place.folder) ? place.folder : settings;
        const restored = await undoChanges(ctx, own);
        const text = restored.length === 0
          ? "There is nothing to undo."
          : ["Restored:", ...restored.map((path) => `  ${path}`)];
        ctx.out.result({ agent, platform: id, restored }, text);
        return;
      }
      if (platform.delivery === "pull") throw nothingToSetUp(id);
      const before = file ?? emptyRuntimeFile(id);
      const port = parsePort(options["webhook-port"], "--webhook-port");
      const wanted = {
        ...before,
        baseUrl: options["platform-base-url"] ?? before.baseUrl,
        webhookHost: options["webhook-host"] ?? before.webhookHost,
        webhookPort: port ?? before.webhookPort,
        webhookToken: options["webhook-token"] ?? before.webhookToken,
        connectorBaseUrl: options["connector-base-url"] ?? options["connector-url"] ?? before.connectorBaseUrl,
        stateDir: options["platform-state-dir"] ?? before.stateDir,
      };
      const target = runtimeTarget({ env: () => undefined, allowInsecure: true }, wanted);
      if (target === null) throw nothingToSetUp(id);
      const planned = () =>
        platform.plan(machine, { target, stateDir: wanted.stateDir, makeToken: () => makeToken(ctx.random) });
      await planned();
      await agreeToChange(ctx, place, target, options.yes);
      // Planned again, because what the runtime wrote into its settings while the person was asked would be lost.
      const plan = await planned();
      await ensureConfigDir(ctx);
      if (plan.change !== null) await applyChange(ctx, settings, plan.change);
      const saved = { ...wanted, hookPath: plan.hookPath, webhookToken: plan.hookToken };
      await settings.writeJson(RUNTIME_FILE, saved);
      await warnOfOwnSettings(ctx, place);
      if (peersPath !== undefined && peersFrom !== null) await copyPeers(peersFrom, peersPath);
      const changed = plan.change === null ? [] : [plan.change.path];
      const url = target.baseUrl + plan.hookPath;
      ctx.out.result({ agent, platform: id, url, changed, steps: plan.steps }, [
        ctx.out.bold(`${platform.name} accepts messages for ${agent ?? "every agent on this machine"} at ${url}.`),
        ...fields([["changed", changed.join(", ") || "nothing"], [
          "token",
          plan.hookToken === null ? "none" : "saved",
        ]]),
        ...(plan.steps.length > 0 ? ["Remaining steps:", ...plan.steps.map((step) => `  ${step}`)] : []),
      ]);
      const starting = agent === null ? place.agents : [agent];
      for (const name of starting) ctx.out.next(["connector", "start", name]);
      if (starting.length === 0) ctx.out.next(["agent", "create", "my-agent"]);
    },
  }),
];

function nothingToSetUp(id: PlatformId): CliError {
  return new CliError("CLI_USAGE", `The platform ${id} has no runtime to set up`, { fix: `svc install --for ${id}` });
}

/** Writes the peers for a runtime, without those whose pair has ended. */
async function copyPeers(folder: AgentFolder, path: string): Promise<void> {
  const text = JSON.stringify(presentPeers(readPeers(folder)), null, 2);
  try {
    await Deno.writeTextFile(path, `${text}\n`);
  } catch (cause) {
    throw new CliError("CLI_SAVE_FAILED", `${path} could not be written`, { cause });
  }
}
