/** The options of `connector start` and `connector service install`, and which of them belong to one agent. */
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import type { ScreenOptions } from "./talk/screen.ts";
import { ADDRESSES, type TargetOptions } from "./runtime/runtime_file.ts";

export interface StartOptions extends TargetOptions, ScreenOptions {
  "proxy-ws-url"?: string | undefined;
  port?: string | undefined;
  exec?: string | undefined;
  hidden?: boolean;
  save?: boolean;
  yes?: boolean;
  strict?: boolean | undefined;
  /** Answers local calls from what is stored, and calls no server. */
  offline?: boolean;
}

const RUNTIME_OPTIONS = ["runtime-base-url", "openclaw-base-url", "hook-path", "hook-token"] as const;

/** Returns true when an option chooses the platform, or the address or the token of the runtime. */
export function givesRuntime(options: StartOptions): boolean {
  return options.inbox === true || options.replies !== undefined ||
    RUNTIME_OPTIONS.some((option) => options[option] !== undefined);
}

/** @throws {CliError} `CLI_USAGE` when there is nothing to save */
export function checkSave(options: StartOptions): void {
  if (!options.save || options.strict || givesRuntime(options)) return;
  const names = [...RUNTIME_OPTIONS, "inbox", "replies", "strict"].map((name) => `--${name}`);
  throw new CliError("CLI_USAGE", `--save needs one of ${names.join(", ")}`);
}

/**
 * Refuses options and variables of one agent where there are several, because one runtime would get the messages of
 * all.
 * @throws {CliError} `CLI_USAGE`
 */
export function refuseOptionsOfOne({ env }: Pick<Context, "env">, options: StartOptions): void {
  // A token of the environment also arrives as this option, but it is for every agent, so it is not refused.
  const isOfAll = (name: string) => name === "hook-token" && options[name] === env("SVC_HOOK_TOKEN");
  const option = ([...RUNTIME_OPTIONS, "port"] as const).find((name) => options[name] !== undefined && !isOfAll(name));
  if (option !== undefined) {
    throw new CliError("CLI_USAGE", `--${option} is for the connector of one agent, not for several`);
  }
  const variable = Object.values(ADDRESSES).find((name) => env(name) !== undefined);
  if (variable !== undefined) throw runtimeOfOne(variable, "several agents");
}

export function runtimeOfOne(variable: string, what: string): CliError {
  return new CliError("CLI_USAGE", `${variable} cannot be used for ${what}`, {
    fix: "Unset it, and set the runtime of each agent with svc provider setup, or of all with svc install.",
  });
}
