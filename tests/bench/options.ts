/** The options of `deno task bench`. */
import { parseArgs } from "node:util";
import type { Rounds } from "./rows/against.ts";
import type { ScaleName } from "./scale.ts";

/** What to measure, and what to print. */
export interface Options {
  scale: ScaleName;
  only: string;
  json: boolean;
  profiles: string | null;
  /** Folder of another version, to compare with. */
  against: string | null;
  rounds: Rounds;
  /** File for the plot; `null` for none. */
  svg: string | null;
  /** Files of reports to draw instead of measuring. */
  from: readonly string[];
}

export const USAGE =
  `usage: deno task bench [--quick | --full] [--only <text>] [--json] [--profile <folder>] [--svg <file>]
       deno task bench --against <folder> [--rounds <n>] [--at <n,n,...>] [--seconds <n>] [--json]
       deno task bench --from <report of --json> [--from <another>] --svg <file>`;

const MAX_ROUNDS = 1_000;
const MAX_AT_ONCE = 1_024;
const MAX_SECONDS = 60;
/** Round of a comparison, unless the options say otherwise: with the signing of its messages about 8 s. */
const ROUNDS: Rounds = { rounds: 5, concurrency: [1, 16, 64], seconds: 5 };
const QUICK_ROUNDS: Rounds = { rounds: 1, concurrency: [1, 4], seconds: 0.1 };

/** @throws {TypeError} when an option is unknown or its value is out of range */
export function readOptions(args: string[]): Options {
  const { quick, full, only = "", json, profile, against, rounds, at, seconds, svg, from = [] } = parseArgs({
    args,
    options: {
      quick: { type: "boolean", default: false },
      full: { type: "boolean", default: false },
      only: { type: "string" },
      json: { type: "boolean", default: false },
      profile: { type: "string" },
      against: { type: "string" },
      rounds: { type: "string" },
      at: { type: "string" },
      seconds: { type: "string" },
      svg: { type: "string" },
      from: { type: "string", multiple: true },
    },
  }).values;
  if (quick && full) throw new TypeError("--quick and --full exclude each other");
  if (against === undefined && (rounds ?? at ?? seconds) !== undefined) {
    throw new TypeError("--rounds, --at and --seconds need --against");
  }
  if (against !== undefined && only !== "") throw new TypeError("--against and --only exclude each other");
  if (from.length > 0 && svg === undefined) throw new TypeError("--from needs --svg");
  if (from.length > 0 && (against !== undefined || only !== "" || json || quick || full)) {
    throw new TypeError("--from draws a stored report and measures nothing");
  }
  const concurrency = at?.split(",").map((text) => numberOf("--at", text, MAX_AT_ONCE, true));
  const usual = quick ? QUICK_ROUNDS : ROUNDS;
  return {
    scale: quick ? "quick" : full ? "full" : "usual",
    only,
    json,
    profiles: profile ?? null,
    against: against ?? null,
    rounds: {
      rounds: rounds === undefined ? usual.rounds : numberOf("--rounds", rounds, MAX_ROUNDS, true),
      concurrency: concurrency ? [...new Set(concurrency)] : usual.concurrency,
      seconds: seconds === undefined ? usual.seconds : numberOf("--seconds", seconds, MAX_SECONDS, false),
    },
    svg: svg ?? null,
    from,
  };
}

function numberOf(name: string, text: string, max: number, isWhole: boolean): number {
  const value = text.trim() === "" ? NaN : Number(text);
  if (!(value > 0 && value <= max) || isWhole && !Number.isInteger(value)) {
    throw new TypeError(`${name}: ${text} is not a ${isWhole ? "whole " : ""}number above 0, at most ${max}`);
  }
  return value;
}
