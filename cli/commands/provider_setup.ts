/** `svc provider setup`: the runtime's own settings, so that it takes what the connector brings; and back again. */
import { join } from "node:path";
import { command } from "../command.ts";
import { CliError } from "../errors.ts";
import { fields } from "../output.ts";
import { FOR, parsePlatform, parsePort, providerOf, WHICH_AGENT } from "./provider_world.ts";

export const PROVIDER_SETUP_COMMANDS = [
  command({
    path: ["provider", "setup"],
    summary: "Make an agent's runtime take messages: its settings are changed, what they were is kept",
    details: ["--undo puts back what was, unless somebody else has changed the files since. Safe to run again."],
    args: {},
    options: {
      for: { ...FOR, required: true },
      "agent-name": WHICH_AGENT,
      "platform-base-url": { value: "url", summary: "Where the runtime is" },
      "platform-state-dir": { value: "dir", summary: "Where the runtime keeps its state", complete: "files" },
      "webhook-host": { value: "host", summary: "Host on which it takes messages" },
      "webhook-port": { value: "port", summary: "Port on which it takes messages" },
      "webhook-token": {
        value: "token",
        summary: "Its secret; made unless given",
        env: "SVC_HOOK_TOKEN",
        secret: true,
      },
      "connector-base-url": { value: "url", summary: "The connector's local API, where it is not the usual one" },
      "connector-url": { value: "url", summary: "The same" },
      "relay-transform-peers-path": { value: "file", summary: "Write a copy of peers.json there", complete: "files" },
      undo: { summary: "Put the runtime's settings back" },
    },
    examples: [
      { run: "svc provider setup --for openclaw", says: "OpenClaw takes messages from now on" },
      { run: "svc provider setup --for openclaw --undo", says: "As it was before" },
    ],
    async run(ctx, { options }) {
      const [{ applyChanges, undoChanges }, { makeToken }, { RUNTIME_FILE, runtimeTarget, emptyRuntimeFile }] =
        await Promise.all([
          import("../platforms/setup.ts"),
          import("../connector/listening.ts"),
          import("../connector/runtime_file.ts"),
        ]);
      const id = parsePlatform(options.for);
      const { folder, file, machine, platform } = await providerOf(ctx, options);
      if (options.undo) {
        const restored = await undoChanges(ctx, folder);
        const text = restored.length === 0
          ? "There is nothing to undo."
          : ["Put back:", ...restored.map((path) => `  ${path}`)];
        ctx.out.result({ agent: folder.name, platform: id, restored }, text);
        return;
      }
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
      const target = runtimeTarget({ env: () => undefined }, wanted, "", { "allow-insecure": true });
      const plan = await platform.plan(machine, {
        agentName: folder.name,
        target,
        stateDir: wanted.stateDir,
        makeToken: () => makeToken(ctx.random),
      });
      await applyChanges(ctx, folder, plan.changes);
      const saved = { ...wanted, hookPath: plan.hookPath, webhookToken: plan.hookToken };
      await folder.writeJson(RUNTIME_FILE, saved);
      const peersPath = options["relay-transform-peers-path"];
      if (peersPath !== undefined) await copyPeers(folder, peersPath);
      const changed = plan.changes.map(({ path }) => path);
      const url = target.baseUrl + plan.hookPath;
      ctx.out.result({ agent: folder.name, platform: id, url, changed, steps: plan.steps }, [
        ctx.out.bold(`${platform.name} takes the messages of ${folder.name} at ${url}.`),
        ...fields([["changed", changed.join(", ") || "nothing"], [
          "token",
          plan.hookToken === null ? "none" : "saved",
        ]]),
        ...(plan.steps.length > 0 ? ["Still to do:", ...plan.steps.map((step) => `  ${step}`)] : []),
      ]);
      ctx.out.note(`Next: svc connector start ${folder.name}`);
    },
  }),
];

async function copyPeers(folder: { path: string; read(file: string): string | null }, path: string): Promise<void> {
  const { PEERS_FILE } = await import("../connector/peers.ts");
  try {
    await Deno.writeTextFile(path, folder.read(PEERS_FILE) ?? "{}\n");
  } catch (cause) {
    throw new CliError("CLI_SAVE_FAILED", `${path} could not be written from ${join(folder.path, PEERS_FILE)}`, {
      cause,
    });
  }
}
