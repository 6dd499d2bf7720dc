/**
 * Sets up a new account. Options give the names of the person and the first agent, or a person is asked on a terminal
 * before anything is sent. The command prints the API key even if it cannot be saved, because the registry never shows
 * it again.
 */
import { type Config, configPath, effectiveConfig, requireDisplayName, updateConfig } from "../account/config_store.ts";
import { forgetRedemption } from "../account/redemption.ts";
import type { Context } from "../context.ts";
import { CliError, describe } from "../errors.ts";
import { fields } from "../terminal/output.ts";
import { AgentStore } from "./agent_store.ts";
import { createAgent, type CreatedAgent, type Owner } from "./registration.ts";
import { saveTrust } from "../files/profile.ts";
import { maskSecret } from "../../shared/protocol/secrets.ts";
import { parseServiceUrl } from "../../shared/client/service_url.ts";

export const FIRST_NAME_OPTIONS = {
  "display-name": { value: "name", summary: "Name, as others see it (default: humanName of the configuration)" },
  agent: { value: "name", summary: "Create an agent with this name as well" },
} as const;

/** How many wrong answers end the command. Without a bound, a program that answers at random would never end. */
const TRIES = 3;

/**
 * Asks for the names that no option gives.
 *
 * @param needsAgent whether Enter alone is refused as the name of the agent
 * @throws {CliError} `CLI_USAGE` for a name that the registry would refuse, `CLI_AGENT_EXISTS`
 */
export async function firstNames(
  ctx: Context,
  options: { "display-name": string | undefined; agent: string | undefined },
  needsAgent = false,
) {
  const { "display-name": given, agent } = options, store = new AgentStore(ctx);
  if (given !== undefined) requireDisplayName(given, "--display-name");
  if (agent !== undefined) await store.refuseExisting(agent);
  const displayName = given ?? effectiveConfig(ctx).humanName;
  return {
    displayName: displayName ?? await ask(ctx, "Your name, as others see it: ", (text) => {
      requireDisplayName(text, "A name");
    }),
    agent: agent ??
      await ask(
        ctx,
        `Name of your first agent${needsAgent ? "" : " (Enter: none)"}: `,
        (text) => store.refuseExisting(text),
        needsAgent,
      ),
  };
}

/**
 * Returns the answer. Returns `undefined` where no person can be asked, and for Enter alone unless an answer is needed.
 *
 * @throws {CliError} that of `check`
 */
async function ask(
  ctx: Context,
  question: string,
  check: (text: string) => void | Promise<void>,
  isNeeded = false,
): Promise<string | undefined> {
  if (ctx.ask === undefined || ctx.ask === null || ctx.out.json) return undefined;
  ctx.out.finish();
  for (let left = TRIES;; left--) {
    const line = await ctx.ask(question);
    // If Ctrl-D counted as Enter alone, the invite of a person who wants to leave would be used up.
    if (line === null) throw new CliError("CLI_INTERRUPTED", "The question was not answered");
    const text = line.trim();
    if (text === "" && !isNeeded) return undefined;
    try {
      await check(text);
      return text;
    } catch (error) {
      if (!(error instanceof CliError) || left === 1) throw error;
      ctx.out.note(`${error.message}.`);
    }
  }
}

/**
 * Saves key, name and URLs in config.json. Plain http and certificate authorities that this command allowed are saved
 * too, so that later commands need no option for them.
 *
 * @param knownProxyUrl without it the registry is asked
 * @throws {CliError} `CLI_SAVE_FAILED`; its fix says how to save the key
 */
export async function saveAccount(
  ctx: Context,
  { registry, apiKey }: Owner,
  { displayName: humanName }: { displayName: string },
  knownProxyUrl?: string,
): Promise<void> {
  try {
    const config: Config = { registryUrl: registry.registryUrl, apiKey, humanName };
    // When the registry does not answer, the key is saved without the proxy.
    const asked = () => registry.metadata().then(({ proxyUrl }) => proxyUrl, () => "");
    const proxyUrl = parseServiceUrl(knownProxyUrl ?? await asked());
    if (proxyUrl !== null) config.proxyUrl = proxyUrl;
    // Another command may have saved its key since this one began, and that key would be lost without a word.
    const before = await updateConfig(ctx, config);
    const urls = [config.registryUrl, config.proxyUrl].filter((url) => url !== undefined);
    await saveTrust(ctx, urls);
    await forgetRedemption(ctx);
    ctx.out.note(`The API key is saved in ${configPath(ctx)}.`);
    if (before?.apiKey !== undefined && before.apiKey !== apiKey) {
      ctx.out.warn(`It replaces the previously saved key ${maskSecret(before.apiKey)}`);
    }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const fix = "Store it now, and save it with svc config set apiKey - when the file is writable.";
    throw new CliError("CLI_SAVE_FAILED", `The API key above could not be saved: ${why}`, { cause, fix });
  }
}

/**
 * Creates the first agent of a new account.
 *
 * @throws as `createAgent`. `CLI_SAVE_FAILED` names the command that goes on, because an invite works only once
 */
export async function firstAgent(ctx: Context, owner: Owner, name: string): Promise<CreatedAgent> {
  try {
    return await createAgent(ctx, owner, { name });
  } catch (error) {
    const { code, cause: message, fix, details = [] } = describe(error);
    if (code !== "CLI_SAVE_FAILED") throw error;
    const next = fix.replace("run the command again", `run svc agent create ${name}`);
    throw new CliError(code, message, { cause: error, fix: next, details });
  }
}

/** The lines about a new account. A terminal shows names, because a person reads them; elsewhere the DIDs are shown. */
export function accountFields(
  { out }: Pick<Context, "out">,
  { human, apiKey }: { human: { did: string; displayName: string }; apiKey: { token: string } },
  agent: { name: string; did: string } | null,
): string[] {
  return fields([
    ["human", out.shown({ short: human.displayName, whole: human.did })],
    ["API key", apiKey.token],
    ["agent", agent === null ? undefined : out.shown({ short: agent.name, whole: agent.did })],
  ]);
}
