/**
 * Reads configuration variables and reports all their problems together. A service reads its environment only through
 * this file, because a variable that is read elsewhere would not be checked before the start.
 */

import { withLoopback } from "../no_proxy.ts";

/** Returns a variable, or `undefined` when it is not set. */
export type Environ = (name: string) => string | undefined;

/**
 * Reads the environment of the process. An empty value counts as not set.
 *
 * @throws {StartRefused} when this process may not read the variable, because the default would silently replace it
 */
export const processEnviron: Environ = (name) => {
  try {
    return Deno.env.get(name) || undefined;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotCapable)) throw error;
    throw new StartRefused(
      `This process may not read the variable ${name}. Start it with svc serve, deno task start or -P=server, which ` +
        `hold every variable; --allow-env replaces that list, so leave it out.`,
    );
  }
};

/**
 * Sets `NO_PROXY` so that requests to this machine, such as those of a proxy to its registry, go to no HTTP proxy of the
 * environment, because they carry the service credential and tokens unencrypted.
 *
 * @throws {StartRefused} as `processEnviron`
 */
export function keepLocal(): void {
  // On Deno Deploy no request goes to this machine, and a program there may not be allowed to set a variable.
  if (processEnviron("DENO_DEPLOYMENT_ID") !== undefined) return;
  Deno.env.set("NO_PROXY", withLoopback(processEnviron("NO_PROXY") ?? processEnviron("no_proxy")));
}

/** Parses the text of one variable. @throws {TypeError} with a message that completes "NAME: …" */
export type Parse<T> = (text: string) => T;

/** The server cannot start, for a reason that its operator can remove. The message is for the operator. */
export class StartRefused extends Error {
  override name = "StartRefused";
  /** Whether the reason may go away by itself. A supervisor that takes it for final would not start the server again. */
  readonly mayPass: boolean = false;

  /** @param problems one line each; empty when the headline says everything */
  constructor(readonly headline: string, readonly problems: readonly string[] = []) {
    super([problems.length === 0 ? headline : `${headline}:`, ...problems.map((line) => `  ${line}`)].join("\n"));
  }
}

/** The configuration is invalid. `problems` has one line per variable. */
export class ConfigError extends StartRefused {
  override name = "ConfigError";
  constructor(problems: readonly string[]) {
    super("The configuration cannot be used", problems);
  }
}

export class ConfigReader {
  readonly problems: string[] = [];

  constructor(private readonly environ: Environ) {}

  /** Returns the variable's value, or `fallback` when it is not set or invalid. */
  read<T>(name: string, parse: Parse<T>, fallback: T): T {
    const text = this.environ(name);
    if (text === undefined) return fallback;
    try {
      return parse(text);
    } catch (error) {
      this.problem(name, error instanceof Error ? error.message : "cannot be read");
      return fallback;
    }
  }

  problem(name: string, message: string): void {
    this.problems.push(`${name}: ${message}`);
  }

  /** @throws {ConfigError} when a problem was added */
  finish<T>(config: T): Readonly<T> {
    if (this.problems.length > 0) throw new ConfigError(this.problems);
    return Object.freeze(config);
  }
}

export function wholeNumber(min: number, max: number): Parse<number> {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
    if (!(value >= min && value <= max)) throw new TypeError(`must be a whole number from ${min} to ${max}`);
    return value;
  };
}

export function oneOf<T extends string>(...words: readonly T[]): Parse<T> {
  return (text) => {
    const word = words.find((candidate) => candidate === text);
    if (word === undefined) throw new TypeError(`must be one of ${words.join(", ")}`);
    return word;
  };
}

/** Parses an http or https origin: no path, query, fragment or user info. */
export const origin: Parse<string> = (text) => {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || !/^https?:$/.test(url.protocol)) throw new TypeError("must be an http or https URL");
  if (url.pathname !== "/" || url.search || url.hash || url.username || url.password || /[?#]/.test(text)) {
    throw new TypeError("must be an origin, without path, query, fragment or user info");
  }
  return url.origin;
};

export const list: Parse<string[]> = (text) => text.split(",").map((word) => word.trim()).filter((word) => word !== "");
