/**
 * The server and the work on its store, which the command also starts. Types only: `svc.ts` at the top level fills them
 * in, because `cli/` imports neither. The CLI without them answers `CLI_NO_SERVER`.
 */

/** How to start a server. */
export interface ServeOptions {
  /** Values of the server's variables, by name. */
  variables: Readonly<Record<string, string>>;
  /**
   * `service`: the work of this process. Other variables come from the environment, and it logs to standard error.
   * `demo`: a server beside the command. It reads no environment and logs nothing.
   */
  purpose: "service" | "demo";
}

/** A server that listens. */
export interface RunningProgram {
  /** The address it listens on, for example `http://127.0.0.1:8787`. */
  address: string;
  /** The address of the metrics; `null` or absent when they are not served. */
  metricsAddress?: string | null;
  /** Returns true until the first admin exists. */
  bootstrapOpen(): Promise<boolean>;
  /** Drains and stops within 5 s. */
  stop(): Promise<void>;
}

/** Returns a variable of the environment; `undefined` when it is unset or empty. */
export type ServerVariable = (name: string) => string | undefined;

export interface Programs {
  /** Starts the server. @throws {import("./errors.ts").CliError} `CLI_SERVER_REFUSED` */
  serve(options: ServeOptions): Promise<RunningProgram>;
  /** Returns the reader of the server's variables. */
  environment(): Promise<ServerVariable>;
  /**
   * Runs a command of `deploy_store.ts`, which prints its result. Returns its exit code.
   *
   * @throws {import("./errors.ts").CliError} `CLI_SERVER_REFUSED`, `CLI_STORE_FAILED`
   */
  store(argv: readonly string[]): Promise<number>;
}
