// The part of `@std/cli` in use: `parseArgs` with these four options.
export interface ParseOptions {
  /** Options without a value; false when they are not given. */
  boolean?: readonly string[];
  /** Options with a value; empty when it is not given. */
  string?: readonly string[];
  /** Options that may repeat: a list of their values, empty when they are not given. */
  collect?: readonly string[];
  /** Called with each word, and with each option that the lists do not name. `false` leaves it out. */
  unknown?: (arg: string, key?: string, value?: unknown) => unknown;
}

export interface ParsedArgs {
  /** The words, and everything after `--`. */
  _: (string | number)[];
  [name: string]: unknown;
}

export function parseArgs(args: string[], options: ParseOptions = {}): ParsedArgs {
  const { boolean = [], string = [], collect = [], unknown = () => true } = options;
  const known = new Set([...boolean, ...string, ...collect]);
  // Without a prototype, so that an option named __proto__ is one like any other.
  const parsed: ParsedArgs = Object.assign(Object.create(null), { _: [] });
  for (const name of boolean) parsed[name] = false;
  for (const name of collect) if (name !== "_") parsed[name] = [];
  const end = args.indexOf("--");
  const before = end === -1 ? args : args.slice(0, end);
  for (let i = 0; i < before.length; i++) {
    const arg = before[i] ?? "";
    const [, key, given] = /^-{1,2}([^=]+)(?:=(.*))?$/s.exec(arg) ?? [];
    if (key === undefined) {
      if (unknown(arg) !== false) parsed._.push(arg);
      continue;
    }
    const next = before[i + 1];
    const isBoolean = boolean.includes(key);
    const takesNext = given === undefined && !isBoolean && next !== undefined && next !== "" && !next.startsWith("-");
    if (takesNext) i++;
    const value = isBoolean ? given !== "false" : given ?? (takesNext ? next : string.includes(key) ? "" : true);
    if (!known.has(key) && unknown(arg, key, value) === false) continue;
    if (collect.includes(key)) (parsed[key] as unknown[]).push(value);
    else parsed[key] = value;
  }
  if (end !== -1) parsed._.push(...args.slice(end + 1));
  return parsed;
}
