/**
 * `svc install` and `svc provider setup`: choose the runtime, for all agents or for one, and change its settings so
 * that it accepts messages.
 */
import { resolve } from "node:path";
import { parsePort } from "../../command_line/numbers.ts";
import { command } from "../../command_line/command.ts";
import { ensureConfigDir } from "../../files/config_dir.ts";
import { withHostsLock } from "../../files/lock.ts";
import type { PrivateFolder } from "../../files/private_files.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import { connectorOf, YES } from "../connector/connector.ts";
import { fields, sentence } from "../../terminal/output.ts";
import {
  agreeToChange,
  CONNECTOR_URL,
  FOR,
  parsePlatform,
  placeOf,
  providerOf,
  STATE_DIR,
  warnOfOwnSettings,
  WHICH_AGENT,
} from "./provider_world.ts";
import { detectAll, likeliest } from "../../platforms/table.ts";
import { isLoopback } from "../../../shared/client/service_url.ts";
import { thisMachine } from "../../platforms/local_machine.ts";
import type { AgentFolder } from "../../agents/agent_store.ts";
import type { PlatformId, RuntimeTarget } from "../../platforms/platform.ts";
import { parseHookToken } from "../../connector/runtime/runtime.ts";
import { presentPeers, readPeers } from "../../connector/peers/peers.ts";
import { applyChange, changedFiles, undoChanges } from "../../platforms/setup.ts";
import { makeToken } from "../../connector/local_api/discovery_file.ts";
import {
  emptyRuntimeFile,
  readRuntimeFileIn,
  RUNTIME_FILE,
  runtimeTarget,
} from "../../connector/runtime/runtime_file.ts";

function nextStarts(ctx: Context, agents: readonly string[], runtime: RuntimeTarget | null): void {
  // Without the option, the connector refuses a runtime on another machine.
  const isFar = runtime !== null && !isLoopback(runtime.baseUrl), more = isFar ? ["--allow-insecure"] : [];
  const when = isFar ? "if messages may leave this machine" : "";
  for (const name of agents) ctx.out.next(["connector", "start", name, ...more], { when });
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
        const table = ctx.out.table([
          { head: "PLATFORM", of: ({ platform }) => platform },
          { head: "CONFIDENCE", of: ({ confidence }) => confidence },
          { head: "BECAUSE", rank: 1, of: ({ reasons }) => reasons.join("; ") || null },
        ], found);
        return ctx.out.result({ platforms: found }, table);
      }
      const chosen = wanted === null ? likeliest(found) : found.find(({ platform }) => platform === wanted) ?? null;
      if (chosen === null) {
        const likely = found.filter(({ confidence }) => confidence !== "none").map(({ platform }) => platform);
        const what = likely.length === 0
          ? "No agent runtime was found"
          : `Several runtimes are equally likely: ${likely.join(", ")}`;
        const how = "Name one with --for; generic means any HTTP address, inbox means none";
        throw new CliError("CLI_USAGE", `${what}. ${how}`);
      }
      const place = await placeOf(ctx, options["agent-name"]), { settings } = place;
      if (chosen.platform === "inbox" && port !== undefined) {
        throw new CliError("CLI_USAGE", "--port is the port of a runtime, and the platform inbox has none");
      }
      const saved = readRuntimeFileIn(settings);
      const before = saved?.platform === chosen.platform ? saved : emptyRuntimeFile(chosen.platform);
      const file = {
        ...before,
        baseUrl: before.baseUrl ?? chosen.baseUrl ?? null,
        hookPath: before.hookPath ?? chosen.hookPath ?? null,
        webhookPort: port ?? before.webhookPort,
        // The inbox saves no token, because one in SVC_HOOK_TOKEN may be meant for other agents.
        webhookToken: chosen.platform === "inbox" ? null : options.token ?? before.webhookToken,
        chosen: undefined,
      };
      const target = runtimeTarget({ env: () => undefined, allowInsecure: true }, file);
      await ensureConfigDir(ctx);
      await agreeToChange(ctx, place, target, options.yes);
      await settings.writeJson(RUNTIME_FILE, file);
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
      if (target === null) return nextStarts(ctx, agent === null ? place.agents : [agent], null);
      ctx.out.next(["provider", "setup", "--for", platform, ...(agent === null ? [] : ["--agent-name", agent])]);
    },
  }),
  command({
    path: ["provider", "setup"],
    summary: "Configure an agent's runtime to accept messages; the previous settings are backed up",
    details: ["--undo restores the backup unless another program has changed the files since. Safe to run again."],
    options: {
      for: { ...FOR, required: true },
      "agent-name": WHICH_AGENT,
      "platform-base-url": { value: "url", summary: "Runtime URL" },
      "platform-state-dir": STATE_DIR,
      "webhook-host": { value: "host", summary: "Host on which the runtime accepts messages" },
      "webhook-port": { value: "port", summary: "Port on which the runtime accepts messages" },
      "webhook-token": {
        value: "token",
        summary: "Token that the runtime requires (default: generated)",
        env: "SVC_HOOK_TOKEN",
        secret: true,
      },
      "connector-base-url": CONNECTOR_URL,
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
      // Looked up before anything is written, because this fails when no agent is named and there are several.
      const peersFrom = peersPath === undefined ? null : (await connectorOf(ctx, options["agent-name"])).folder;
      const named = options["agent-name"] === undefined ? null : place.folder;
      const { file, machine, platform } = await providerOf(ctx, options, named);
      const agent = named?.name ?? null;
      if (options.undo) {
        // The backup of settings for a single agent is in that agent's folder.
        const hasBackup = (folder: PrivateFolder) => changedFiles(folder, id).length > 0;
        const own = place.folder !== null && !hasBackup(settings) && hasBackup(place.folder) ? place.folder : settings;
        const restored = await undoChanges(ctx, own, id);
        const text = restored.length === 0
          ? "There is nothing to undo."
          : ["Restored:", ...restored.map((path) => `  ${path}`)];
        ctx.out.result({ agent, platform: id, restored }, text);
        if (readRuntimeFileIn(own)?.platform === id) {
          const whose = own === place.folder ? ["--agent-name", place.folder.name] : [];
          const when = `unless messages should still go to ${platform.name}`;
          ctx.out.next(["install", "--for", "inbox", ...whose], { when });
        }
        return;
      }
      if (platform.id === "inbox") throw nothingToSetUp(id);
      const before = file ?? emptyRuntimeFile(id);
      const port = parsePort(options["webhook-port"], "--webhook-port"), dir = options["platform-state-dir"];
      const url = options["platform-base-url"];
      const wanted = {
        ...before,
        baseUrl: url ?? before.baseUrl,
        // A saved host or port would override the address that is given now.
        webhookHost: options["webhook-host"] ?? (url === undefined ? before.webhookHost : null),
        webhookPort: port ?? (url === undefined ? before.webhookPort : null),
        webhookToken: options["webhook-token"] ?? before.webhookToken,
        connectorBaseUrl: options["connector-base-url"] ?? options["connector-url"] ?? before.connectorBaseUrl,
        stateDir: dir === undefined ? before.stateDir : resolve(dir),
      };
      const target = runtimeTarget({ env: () => undefined, allowInsecure: true }, wanted);
      if (target === null) throw nothingToSetUp(id);
      const planned = async () => {
        const wish = { target, stateDir: wanted.stateDir, makeToken: () => makeToken(ctx.random) };
        const plan = await platform.plan(machine, wish);
        // Checked before it is saved, because no later command would accept the saved settings.
        if (plan.hookToken !== null) parseHookToken(plan.hookToken, `The token that ${platform.name} has`);
        return plan;
      };
      await planned();
      await agreeToChange(ctx, place, target, options.yes);
      const plan = await withHostsLock(ctx, async () => {
        // Planned again, because another program may have written the settings during the question, and this change
        // would undo that.
        const found = await planned();
        if (found.change !== null) await applyChange(ctx, settings, id, found.change);
        const saved = { ...wanted, hookPath: target.hookPath, webhookToken: found.hookToken };
        await settings.writeJson(RUNTIME_FILE, saved);
        return found;
      });
      await warnOfOwnSettings(ctx, place);
      if (peersPath !== undefined && peersFrom !== null) await copyPeers(peersFrom, peersPath);
      const changed = plan.change === null ? [] : [plan.change.path];
      const at = target.baseUrl + target.hookPath;
      ctx.out.result({ agent, platform: id, url: at, changed, steps: plan.steps }, [
        ctx.out.bold(
          sentence(`${platform.name} accepts messages for ${agent ?? "every agent on this machine"} at ${at}`),
        ),
        ...fields([
          ["changed", changed.join(", ") || "nothing"],
          ["token", plan.hookToken === null ? "none" : "saved"],
        ]),
        ...(plan.steps.length > 0 ? ["Remaining steps:", ...plan.steps.map((step) => `  ${step}`)] : []),
      ]);
      nextStarts(ctx, agent === null ? place.agents : [agent], target);
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
