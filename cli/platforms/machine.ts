/** The machine, for detection and set-up. */

/** The largest settings file of a runtime that is read or changed. */
export const MAX_SETTINGS_BYTES = 16 * 1024 * 1024;

/** Files, environment and programs; injected, so that a test has its own machine. */
export interface Machine {
  home: string | null;
  os: typeof Deno.build.os;
  env(name: string): string | undefined;
  /** The response of a loopback address, up to 1 MiB; `null` without a response within 2 s. */
  ask(url: string): Promise<{ status: number; body: string } | null>;
  /** The output of a program, up to 1 MiB; `null` when it is not installed or fails. */
  run(command: string, args: readonly string[]): Promise<string | null>;
  /** Text of a file; `null` when it does not exist, is over `MAX_SETTINGS_BYTES`, or cannot be read. */
  read(path: string): Promise<string | null>;
  exists(path: string): Promise<boolean>;
}

/** Confidence of a detection. */
export type Confidence = "none" | "low" | "medium" | "high";

/** The result of a detection, with its evidence. */
export interface Finding {
  confidence: Confidence;
  reasons: string[];
  /** Path of its settings; `null` when unknown. */
  configPath: string | null;
  /** Address for messages, from its settings. */
  baseUrl?: string;
  hookPath?: string;
}
