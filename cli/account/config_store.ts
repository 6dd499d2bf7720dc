/**
 * Reads and writes `config.json`. An option of the command wins over the environment, the environment over the file,
 * and the file over the default. An invalid file is reported and never overwritten, because it may hold the only copy
 * of an API key.
 */
import { join } from "node:path";
import type { Context, EnvironmentName } from "../context.ts";
import { CliError } from "../errors.ts";
import { isDirectory, readPrivate, removeLeftovers, writePrivate } from "../files/private_files.ts";
import { withConfigLock } from "../files/lock.ts";
import { parseServiceUrl } from "../../shared/client/service_url.ts";
import { secureServiceUrl } from "../files/profile.ts";
import { oneOf } from "../command_line/numbers.ts";
import { isRecord, parseOrThrow } from "../../shared/protocol/json_text.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseDisplayName } from "../../shared/protocol/names.ts";

export const CONFIG_KEYS = ["registryUrl", "proxyUrl", "apiKey", "humanName"] as const;
export type ConfigKey = (typeof CONFIG_KEYS)[number];

/** The values of the file, or the effective ones, after options and environment. */
export type Config = Partial<Record<ConfigKey, string>>;

export const DEFAULT_REGISTRY_URL = "http://127.0.0.1:8787";

/** The environment variable that overrides each key of the file. */
export const CONFIG_ENVIRONMENT = {
  registryUrl: "SVC_REGISTRY_URL",
  proxyUrl: "SVC_PROXY_URL",
  apiKey: "SVC_API_KEY",
  humanName: "SVC_HUMAN_NAME",
} as const satisfies Record<ConfigKey, EnvironmentName>;

const MAX_BYTES = 64 * 1024;

/** Returns the configuration key that a text names. @throws {CliError} `CLI_USAGE` for any other text */
export function parseConfigKey(text: string): ConfigKey {
  return oneOf(CONFIG_KEYS, text, "configuration key", "The keys are");
}

/** Returns a value in the form in which it is saved. @throws {CliError} `CLI_USAGE`, `CLI_INSECURE_URL` */
export function parseConfigValue(
  ctx: Pick<Context, "configDir" | "allowInsecure">,
  key: ConfigKey,
  text: string,
): string {
  switch (key) {
    case "registryUrl":
    case "proxyUrl":
      return secureServiceUrl(ctx, text, key);
    case "apiKey":
      // A mail program or a terminal may have broken the pasted key into lines.
      text = text.replaceAll(/[\r\n]+\s*/g, "");
      // Refuses only what does not fit into a header, because the registry checks the exact form.
      if (/^[\x21-\x7e]{1,256}$/.test(text)) return text;
      throw new CliError("CLI_USAGE", "An API key is one word that starts with svc_pat_");
    case "humanName":
      return requireDisplayName(text, key);
  }
}

/** Returns the trimmed name. @param what names the option or key in the error @throws {CliError} `CLI_USAGE` */
export function requireDisplayName(text: string, what: string): string {
  const name = parseDisplayName(text);
  if (name !== null) return name;
  throw new CliError("CLI_USAGE", `${what} must be 1 to ${LIMITS.displayName} characters of text`);
}

export function configPath({ configDir }: Pick<Context, "configDir">): string {
  return join(configDir, "config.json");
}

/**
 * Returns the values of the file; `null` when it does not exist.
 *
 * @throws {CliError} `CLI_CONFIG_INVALID`
 */
export function readConfig(ctx: Pick<Context, "configDir">): Config | null {
  const path = configPath(ctx);
  const invalid = (what: string) => new CliError("CLI_CONFIG_INVALID", `${path} ${what}`);
  let text: string | null;
  try {
    // A directory at this path counts as no configuration, so commands that need none still run. Saving reports it.
    text = isDirectory(path) ? null : readPrivate(path, MAX_BYTES);
  } catch (error) {
    if (error instanceof CliError && error.code === "CLI_FILE_INVALID") {
      throw new CliError("CLI_CONFIG_INVALID", error.message, { fix: error.fix });
    }
    throw error;
  }
  if (text === null) return null;
  const value = parseOrThrow(text, () => invalid(text.trim() === "" ? "is empty" : "is not JSON"));
  if (!isRecord(value)) throw invalid("is not a JSON object");
  const config: Config = {};
  for (const [name, member] of Object.entries(value)) {
    const key = CONFIG_KEYS.find((known) => known === name);
    if (key === undefined) throw invalid(`has the unknown key "${name}"`);
    if (typeof member !== "string") throw invalid(`has a value for ${key} that is not text`);
    if (key.endsWith("Url") && parseServiceUrl(member) === null) throw invalid(`has an invalid URL as ${key}`);
    config[key] = member;
  }
  return config;
}

/** Saves some values. Returns the configuration that was there. */
export async function updateConfig(ctx: Context, change: Config): Promise<Config | null> {
  return await withConfigLock(ctx, async () => {
    await removeLeftovers(ctx.configDir, ctx.clock.now());
    const before = readConfig(ctx), config = { ...before, ...change };
    const ordered = Object.fromEntries(CONFIG_KEYS.flatMap((key) => config[key] ? [[key, config[key]]] : []));
    await writePrivate(ctx.random, configPath(ctx), `${JSON.stringify(ordered, null, 2)}\n`);
    return before;
  });
}

/**
 * Checks that config.json can be written. A command does this before it sends a code or secret that works once, because
 * the API key that it gets in return could otherwise not be saved.
 *
 * @throws {CliError} `CLI_SAVE_FAILED`, and as `readConfig`
 */
export async function checkSavable(ctx: Context): Promise<void> {
  readConfig(ctx);
  const path = configPath(ctx);
  if (isDirectory(path)) throw new CliError("CLI_SAVE_FAILED", `${path} could not be written: it is a directory`);
  const probe = join(ctx.configDir, ".config.probe");
  await withConfigLock(ctx, async () => {
    await writePrivate(ctx.random, probe, "{}\n");
    await Deno.remove(probe);
  });
}

export function effectiveConfig(
  ctx: Pick<Context, "configDir" | "env">,
  flags: { [K in ConfigKey]?: string | undefined } = {},
): Config {
  const config: Config = { registryUrl: DEFAULT_REGISTRY_URL };
  const file = readConfig(ctx) ?? {};
  for (const key of CONFIG_KEYS) {
    const value = flags[key] ?? ctx.env(CONFIG_ENVIRONMENT[key]) ?? file[key];
    if (value !== undefined && value !== "") config[key] = value;
  }
  return config;
}
