/**
 * The dependencies that every command receives: network, clock, entropy, terminal, environment. Tests pass their own,
 * and system.ts builds the real ones.
 */
import type { Interrupt } from "./terminal/interrupt.ts";
import type { Keyboard } from "./terminal/keyboard.ts";
import type { Output, Terminal } from "./terminal/output.ts";
import type { Clock } from "../shared/clock.ts";
import type { Random } from "../shared/random.ts";

/** All environment variables that the CLI reads. The compiled binary has no permission to read others. */
export const ENVIRONMENT = [
  "SVC_CONFIG_DIR",
  "SVC_PROFILE",
  "SVC_REGISTRY_URL",
  "SVC_PROXY_URL",
  "SVC_API_KEY",
  "SVC_AGENT",
  "SVC_HUMAN_NAME",
  "SVC_BOOTSTRAP_SECRET",
  "SVC_INVITE_CODE",
  "SVC_JOIN_LINK",
  "SVC_PROXY_WS_URL",
  "SVC_RUNTIME_BASE_URL",
  "SVC_HOOK_PATH",
  "SVC_NOTIFY",
  "SVC_STRICT",
  "SVC_NO_NOTICE",
  "SVC_HIDDEN",
  "SVC_HOOK_TOKEN",
  "SVC_SERVICE_LOG",
  "OPENCLAW_BASE_URL",
  "OPENCLAW_CONFIG_PATH",
  "OPENCLAW_STATE_DIR",
  "XDG_CONFIG_HOME",
  "XDG_DATA_HOME",
  "HOME",
  "USERPROFILE",
  "APPDATA",
  "LOCALAPPDATA",
  "PATH",
  "CODEX_HOME",
  "NO_COLOR",
  "TERM",
  "DISPLAY",
  "WAYLAND_DISPLAY",
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "ALL_PROXY",
  "http_proxy",
  "https_proxy",
  "all_proxy",
  "NO_PROXY",
  "no_proxy",
  "SVC_CA",
  "LANG",
  "TMPDIR",
  "CLAUDE_CODE_MESSAGING_SOCKET",
  "CLAUDE_CODE_MESSAGING_TOKEN",
] as const;
export type EnvironmentName = (typeof ENVIRONMENT)[number];

/** The certificate authority of `--ca` or `SVC_CA`, or else the saved one. */
export interface Authority {
  /** Absolute path of the file. */
  path: string;
  /** One or more PEM certificates. */
  pem: string;
  /** Set when it is saved in the configuration folder, so that commands with that folder need no option. */
  isSaved?: true;
}

/** Everything outside the program that a command may use. */
export interface System {
  fetch: typeof fetch;
  /** Returns a `fetch` that also trusts these authorities (PEM). Absent where no TLS is used. */
  trusting?: (pem: string) => typeof fetch;
  /** Authorities that are trusted in addition to those of the system. */
  authority?: Authority | undefined;
  /** Returns true when a server accepts connections at the URL. Absent where there is no network. */
  reach?: (url: string) => Promise<boolean>;
  /** Returns true when a process of another user listens at an address of this machine. Absent without network. */
  isOfOtherUser?: (url: string) => Promise<boolean>;
  /** Shows a file in this person's browser. Returns false without a browser. Absent where no program may start. */
  openFile?: (path: string) => boolean | Promise<boolean>;
  /** Starts programs that a person has named. Absent where none may start. */
  exec?: {
    isAllowed(program: string): Promise<boolean>;
    /** Runs a program with only these variables, and ends it when the signal aborts. Returns its exit code. */
    run(program: string, variables: Record<string, string>, signal: AbortSignal): Promise<number>;
  };
  /** Writes a text to the Unix socket at a path. Absent where there are no Unix sockets. */
  writeSocket?: (path: string, text: string) => Promise<void>;
  clock: Clock;
  random: Random;
  terminal: Terminal;
  stdin(maxBytes: number): Promise<Uint8Array<ArrayBuffer>>;
  stdinIsTerminal: boolean;
  /** The keyboard; absent or `null` unless standard input and output are terminals. */
  keyboard?: Keyboard | null;
  /** Asks the user; true for `y`, and for Enter when `isYes`. `null` when there is no terminal. */
  confirm: ((question: string, isYes?: boolean) => Promise<boolean>) | null;
  /** Asks for a line of at most 1,000 bytes; empty for Enter alone, `null` for Ctrl-D. Absent or `null`: no terminal. */
  ask?: ((question: string) => Promise<string | null>) | null;
  /** Ctrl-C. A command that must finish its work takes it over; any other command ends at once. */
  interrupt: Interrupt;
  /** Returns the value of a variable; `undefined` when it is unset or empty. */
  env(name: EnvironmentName): string | undefined;
  /** The server and the work on its store. Absent or `null` in a build that has only the CLI. */
  programs?: Programs | null;
  /** The working directory; absent: that of the process. */
  cwd?: string;
  os: typeof Deno.build.os;
  uid: number | null;
  pid: number;
  version: string;
}

export interface SeenVersion {
  version: string;
  registryUrl: string;
}

/** The system, plus configuration directory and output of one command. */
export interface Context extends System {
  configDir: string;
  /** The folder that holds the profiles: `configDir` itself, unless a profile is chosen. */
  baseDir: string;
  /** Whether `--allow-insecure` was given: secrets may then be sent to another machine with plain http. */
  allowInsecure?: boolean;
  out: Output;
  onResponse?: ((headers: Headers) => void) | undefined;
  /** Called when an answer contains the version of the server. No request is sent only to learn the version. */
  onVersion?: ((seen: SeenVersion) => void) | undefined;
}

export interface ServeOptions {
  variables: Readonly<Record<string, string>>;
  /**
   * `service`: the process does nothing else, so the server also reads the environment, and logs to standard error.
   * `demo`: it runs beside the command, reads no environment and logs nothing.
   */
  purpose: "service" | "demo";
  /** The option that sets each variable. A refusal names the option, because a person looks for what they typed. */
  optionOf?: Readonly<Record<string, string>>;
}

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

/**
 * The server's programs. `svc.ts` fills them in, because `cli/` does not import the server. Without them, commands that
 * need the server fail with `CLI_NO_SERVER`.
 */
export interface Programs {
  /** Starts the server. @throws {import("./errors.ts").CliError} `CLI_SERVER_REFUSED` */
  serve(options: ServeOptions): Promise<RunningProgram>;
  environment(): Promise<ServerVariable>;
  /**
   * Runs a command of `deploy_store.ts`, which prints its result. Returns its exit code.
   *
   * @throws {import("./errors.ts").CliError} `CLI_SERVER_REFUSED`, `CLI_STORE_FAILED`
   */
  store(argv: readonly string[]): Promise<number>;
}
