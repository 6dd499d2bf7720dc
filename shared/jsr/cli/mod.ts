// Stands in for `@std/cli`, so that a build needs only one package registry. Of `parseArgs` it has the two options that
// svc uses.
export interface ParseOptions {
  /** Options without a value; false when they are not given. */
  boolean?: readonly string[];
  /** Options with a value, which is the empty text when the option stands alone. */
  string?: readonly string[];
}

export interface ParsedArgs {
  /** The words, and everything after `--`. */
  _: (string | number)[];
  [name: string]: unknown;
}

export function parseArgs(args: string[], options: ParseOptions = {}): ParsedArgs {
  const { boolean = [], string = [] } = options;
  // The object has no prototype, because the value of an option named __proto__ would otherwise be lost.
  const parsed: ParsedArgs = Object.assign(Object.create(null), { _: [] });
  for (const name of boolean) parsed[name] = false;
  const end = args.indexOf("--");
  const before = end === -1 ? args : args.slice(0, end);
  for (let i = 0; i < before.length; i++) {
    const arg = before[i] ?? "";
    const [, key, given] = /^-{1,2}([^=]+)(?:=(.*))?$/s.exec(arg) ?? [];
    if (key === undefined) {
      parsed._.push(arg);
      continue;
    }
    const next = before[i + 1];
    const isBoolean = boolean.includes(key);
    const takesNext = given === undefined && !isBoolean && next !== undefined && next !== "" && !next.startsWith("-");
    if (takesNext) i++;
    parsed[key] = isBoolean ? given !== "false" : given ?? (takesNext ? next : string.includes(key) ? "" : true);
  }
  if (end !== -1) parsed._.push(...args.slice(end + 1));
  return parsed;
}
