/** Reads and changes settings files of other programs, and keeps the rest of their content. */
import { CliError } from "../errors.ts";
import type { FileChange } from "./platform.ts";
import { isRecord, tryParse } from "../../shared/protocol/json_text.ts";

type Json = Record<string, unknown>;

/**
 * A JSON settings file; `{}` when there is none. A file with an integer that JavaScript would round is refused, because
 * the file would be written with another number, such as the ID of another person in a list of those who may write.
 *
 * @throws {CliError} `CLI_FILE_INVALID` when it is not plain JSON, holds such a number, or is nested too deeply
 */
export function parseSettings(text: string | null, path: string): Json {
  if (text === null || text.trim() === "") return {};
  const value = tryParse(text);
  if (!isRecord(value)) {
    throw new CliError("CLI_FILE_INVALID", `${path} is not a plain JSON object`, {
      // OpenClaw takes comments, but writes none.
      fix: "If it has comments, OpenClaw removes them; then run this again: openclaw config set hooks.path /hooks",
    });
  }
  try {
    JSON.parse(text, (_name, member: unknown, { source = "" }: { source?: string } = {}) => {
      const isKept = typeof member !== "number" || Number.isSafeInteger(member) ||
        /[.eE]/.test(source) && Number.isFinite(member);
      if (isKept) return member;
      throw new CliError("CLI_FILE_INVALID", `${path} has the number ${source.slice(0, 40)}, which svc would round`, {
        fix: "Change the file by hand, or put that number in quotes if its program takes it as text.",
      });
    });
  } catch (error) {
    // The function above is called within the call for each level.
    if (!(error instanceof RangeError)) throw error;
    throw new CliError("CLI_FILE_INVALID", `${path} is nested too deeply`, { fix: "Change the file by hand." });
  }
  return value;
}

/** A nested member; `undefined` when it is absent. */
export function memberOf(value: unknown, ...path: string[]): unknown {
  let at = value;
  for (const key of path) at = isRecord(at) && Object.hasOwn(at, key) ? at[key] : undefined;
  return at;
}

/** The settings with one nested member set; everything else stays. */
export function withMember(settings: Json, path: readonly string[], value: unknown): Json {
  const [key, ...rest] = path;
  if (key === undefined) return settings;
  const inner = isRecord(settings[key]) ? settings[key] : {};
  return { ...settings, [key]: rest.length === 0 ? value : withMember(inner, rest, value) };
}

/** The change that gives a JSON file the wanted settings; `null` when it has them already. */
export function changeTo(wanted: Json, path: string, present: Json, before: string | null): FileChange | null {
  const text = JSON.stringify(wanted, null, 2);
  return text === JSON.stringify(present, null, 2) ? null : { path, before, text: `${text}\n` };
}

/**
 * The values of a `.env` file. If a name has several lines, the last one counts. A comment behind a value is left out,
 * because a token with it would not be the one that the runtime reads.
 */
export function readEnvFile(text: string | null): Map<string, string> {
  const values = new Map<string, string>();
  for (const line of (text ?? "").split(/\r?\n/)) {
    const [, name, set = ""] = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)$/.exec(line.trimEnd()) ?? [];
    const value = set.trimStart(), quoted = /^(["'])(.*?)\1\s*(?:#.*)?$/s.exec(value)?.[2];
    if (name !== undefined) values.set(name, quoted ?? value.replace(/\s#.*$/s, "").trimEnd());
  }
  return values;
}

/** The file with these names set; every other line is unchanged. */
export function withEnvValues(text: string | null, values: Readonly<Record<string, string>>): string {
  const open = new Set(Object.keys(values));
  const lines = (text ?? "").split("\n").map((line) => {
    const name = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=/.exec(line)?.[1] ?? "";
    if (!Object.hasOwn(values, name)) return line;
    open.delete(name);
    return `${name}=${values[name]}`;
  });
  if (lines.at(-1) === "") lines.pop();
  return [...lines, ...[...open].map((name) => `${name}=${values[name]}`), ""].join("\n");
}
