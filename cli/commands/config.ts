/** `svc config …`: the local configuration. */
import { command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import {
  type Config,
  CONFIG_ENVIRONMENT,
  CONFIG_KEYS,
  type ConfigKey,
  configPath,
  effectiveConfig,
  parseConfigKey,
  parseConfigValue,
  readConfig,
  updateConfig,
} from "../account/config_store.ts";
import { connect } from "../account/registry_access.ts";
import type { Context } from "../context.ts";
import { readProfile, saveTrust } from "../files/profile.ts";
import { jsonText } from "../terminal/escapes.ts";
import { fields } from "../terminal/output.ts";

const MASK = "********";
const KEY = { summary: `One of ${CONFIG_KEYS.join(", ")}`, complete: CONFIG_KEYS } as const;

export const COMMANDS = [
  command({
    path: ["config", "init"],
    summary: "Create the configuration and get the proxy URL from the registry",
    details: ["Safe to run again: only the URLs change; API key and name stay."],
    options: REGISTRY_OPTIONS,
    examples: { "svc config init --registry-url https://registry.example": "Use this registry from now on" },
    async run(ctx, { options }) {
      const before = readConfig(ctx);
      const { registry, registryUrl } = connect(ctx, options);
      // Saved before the request, so that the registry URL stays even if the registry does not answer.
      if (before === null) await updateConfig(ctx, { registryUrl });
      ctx.out.doing(`Asking ${registryUrl} for the proxy's address`);
      const { proxyUrl } = await registry.metadata();
      const { apiKey, registryUrl: saved = registryUrl } = before ?? {};
      if (apiKey !== undefined && saved !== registryUrl) ctx.out.warn(`The saved API key belongs to ${saved}`);
      const change = { registryUrl, proxyUrl: parseConfigValue(ctx, "proxyUrl", proxyUrl) };
      const isNew = before === null;
      const isChanged = isNew || CONFIG_KEYS.some((key) => key in change && before[key] !== (change as Config)[key]);
      if (isChanged) await updateConfig(ctx, change);
      await saveTrust(ctx, Object.values(change));
      const path = configPath(ctx);
      ctx.out.result({ ...change, path, created: isNew, changed: isChanged }, [
        isNew ? "The configuration is created." : isChanged ? "The configuration is changed." : "Nothing to change.",
        ...fields([["registry", registryUrl], ["proxy", change.proxyUrl], ["file", path]]),
      ]);
      if (effectiveConfig(ctx).apiKey === undefined) {
        ctx.out.next(["admin", "bootstrap", "--bootstrap-secret", "-"], { when: "as the first admin" });
        ctx.out.next(["invite", "redeem", "-"], { when: "with an invite code" });
        ctx.out.next(["config", "set", "apiKey", "-"], { when: "with an API key of yours" });
      }
    },
  }),
  command({
    path: ["config", "set"],
    summary: "Set a configuration value",
    args: { key: KEY, value: { summary: "The value; - reads it from standard input", secret: true } },
    options: { "allow-insecure": REGISTRY_OPTIONS["allow-insecure"] },
    examples: {
      "svc config set humanName Ada": "Set your display name",
      "svc config set apiKey - <key.txt": "Save an API key and keep it out of the process list",
    },
    async run(ctx, { args }) {
      const key = parseConfigKey(args.key);
      const value = parseConfigValue(ctx, key, args.value);
      await updateConfig(ctx, { [key]: value });
      if (key === "registryUrl" || key === "proxyUrl") {
        // Added to the saved origins that may use plain http, because the other URL would otherwise lose its
        // permission.
        await saveTrust(ctx, [...readProfile(ctx).insecureOrigins, value]);
      }
      const shown = masked(key, value);
      ctx.out.result({ key, value: shown, path: configPath(ctx) }, `${key} is ${shown}`);
      noteOverride(ctx, key);
    },
  }),
  command({
    path: ["config", "get"],
    summary: "Print a configuration value",
    details: ["An API key is printed unmasked. An environment variable overrides the file."],
    args: { key: KEY },
    examples: { "svc config get registryUrl": "Print the registry URL in use" },
    run(ctx, { args }) {
      const key = parseConfigKey(args.key);
      const value = effectiveConfig(ctx)[key] ?? null;
      ctx.out.result({ key, value }, value ?? "(not set)");
      noteOverride(ctx, key);
    },
  }),
  command({
    path: ["config", "show"],
    summary: "Print the configuration as JSON with the API key masked",
    examples: { "svc config show": "Show all values" },
    run(ctx) {
      const config = effectiveConfig(ctx);
      const shown = Object.fromEntries(CONFIG_KEYS.map((key) => [key, masked(key, config[key] ?? null)]));
      ctx.out.result(shown, jsonText(shown).split("\n"));
    },
  }),
];

function masked<T extends string | null>(key: ConfigKey, value: T): T | typeof MASK {
  return key === "apiKey" && value !== null ? MASK : value;
}

function noteOverride(ctx: Context, key: ConfigKey): void {
  const name = CONFIG_ENVIRONMENT[key];
  if (ctx.env(name) !== undefined) ctx.out.note(`${name} is set and overrides the file.`);
}
