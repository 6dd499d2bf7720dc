/** The machine as detection and set-up see it. */

/** The largest settings file of a runtime that is read or changed. */
export const MAX_SETTINGS_BYTES = 16 * 1024 * 1024;

/** Files, environment and programs; injected, so that a test has a machine of its own. */
export interface Machine {
  home: string | null;
  os: typeof Deno.build.os;
  env(name: string): string | undefined;
  /** What a loopback address answers, up to 1 MiB of it; `null` without an answer within 2 s. */
  ask(url: string): Promise<{ status: number; body: string } | null>;
  /** What a program prints, up to 1 MiB of it; `null` when there is none, or it fails. */
  run(command: string, args: readonly string[]): Promise<string | null>;
  /** Text of a file; `null` when there is none, it is over `MAX_SETTINGS_BYTES`, or it cannot be read. */
  read(path: string): Promise<string | null>;
  exists(path: string): Promise<boolean>;
}

/** How sure a detection is. */
export type Confidence = "none" | "low" | "medium" | "high";

/** What was found of a runtime, and why that is believed. */
export interface Finding {
  confidence: Confidence;
  reasons: string[];
  /** Where its settings are; `null` when that is not known. */
  configPath: string | null;
  /** What its settings say about where it takes messages. */
  baseUrl?: string;
  hookPath?: string;
}
