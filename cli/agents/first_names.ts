/** The names of a new account and of its first agent: from options, or asked for on a terminal before anything is sent. */
import { parseDisplayName } from "../../shared/protocol/names.ts";
import { effectiveConfig } from "../account/config_store.ts";
import type { RegistryClient } from "../client/registry_client.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import type { CreatedAgent } from "./registration.ts";

/** Options of the commands that make an account. */
export const FIRST_NAME_OPTIONS = {
  "display-name": { value: "name", summary: "Name, as others see it (default: humanName of the configuration)" },
  agent: { value: "name", summary: "Create an agent with this name as well" },
} as const;

export interface FirstNames {
  /** `undefined`: the registry chooses. */
  displayName: string | undefined;
  /** `undefined`: no agent. */
  agent: string | undefined;
}

/** A person who mistypes is asked again; a program that answers at random must come to an end. */
const TRIES = 3;

/** @throws {CliError} `CLI_USAGE` for a name that the registry would refuse, `CLI_AGENT_EXISTS` */
export async function firstNames(
  ctx: Context,
  options: { "display-name": string | undefined; agent: string | undefined },
): Promise<FirstNames> {
  const { "display-name": given, agent } = options;
  if (given !== undefined && parseDisplayName(given) === null) {
    throw new CliError("CLI_USAGE", "--display-name must be 1 to 64 characters of text");
  }
  if (agent !== undefined) await checkAgentName(ctx, agent);
  const displayName = given ?? effectiveConfig(ctx).humanName;
  return {
    displayName: displayName ?? await ask(ctx, "Your name, as others see it: ", (text) => {
      if (parseDisplayName(text) === null) throw new CliError("CLI_USAGE", "A name has 1 to 64 characters of text");
    }),
    agent: agent ?? await ask(ctx, "Name of your first agent (Enter: none): ", (text) => checkAgentName(ctx, text)),
  };
}

/** Returns the answer; `undefined` for Enter alone, and where no person is asked. @throws {CliError} that of `check` */
async function ask(
  ctx: Context,
  question: string,
  check: (text: string) => void | Promise<void>,
): Promise<string | undefined> {
  if (ctx.ask === undefined || ctx.ask === null || ctx.out.json) return undefined;
  ctx.out.finish();
  for (let left = TRIES;; left--) {
    const text = (await ctx.ask(question)).trim();
    if (text === "") return undefined;
    try {
      await check(text);
      return text;
    } catch (error) {
      if (!(error instanceof CliError) || left === 1) throw error;
      ctx.out.note(`${error.message}.`);
    }
  }
}

/** @throws {CliError} `CLI_USAGE`, `CLI_AGENT_EXISTS` */
async function checkAgentName(ctx: Context, name: string): Promise<void> {
  const [{ requireAgentName }, { AgentStore }] = await Promise.all([
    import("./agent_name.ts"),
    import("./agent_store.ts"),
  ]);
  await new AgentStore(ctx).refuseExisting(requireAgentName(name));
}

/** Creates the first agent of an account. */
export async function firstAgent(
  ctx: Context,
  registry: RegistryClient,
  apiKey: string,
  name: string,
): Promise<CreatedAgent> {
  const { createAgent } = await import("./registration.ts");
  return await createAgent(ctx, { registry, apiKey }, { name });
}
