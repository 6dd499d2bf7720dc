/** The options of `parseArgs` in use here. */
export interface ParseOptions {
  boolean?: readonly string[];
  string?: readonly string[];
  collect?: readonly string[];
  alias?: Record<string, string>;
  stopEarly?: boolean;
  "--"?: boolean;
  unknown?: (arg: string, key?: string, value?: unknown) => unknown;
}
export interface ParsedArgs {
  _: (string | number)[];
  "--"?: string[];
  [name: string]: unknown;
}
export declare function parseArgs(args: string[], options?: ParseOptions): ParsedArgs;
