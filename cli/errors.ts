/**
 * What can go wrong on this side: the CLI's own codes, the errors of the two services as the client sees them, and the
 * exit code that each means (D-84). Prints nothing; output.ts does.
 */
import { errorCodeOf, ERRORS, isErrorCode } from "../shared/protocol/errors.ts";

/** Exit codes (D-84). `interrupted` is the shell's own number for a program that SIGINT ended. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  unauthorised: 3,
  notFound: 4,
  unreachable: 5,
  interrupted: 130,
} as const;

interface CliErrorRow {
  exit: number;
  /** The condition. */
  when: string;
  /** What a person can do about it. */
  fix: string;
}

/** THE table of the CLI's own codes; `svc explain` shows them beside those of the services. */
export const CLI_ERRORS = Object.freeze(
  {
    CLI_USAGE: { exit: EXIT.usage, when: "the command line is not right", fix: "Add --help to see how it is used." },
    CLI_INSECURE_URL: {
      exit: EXIT.usage,
      when: "the address is plain http to another machine",
      fix: "Use https, or --allow-insecure if nobody else can read that network.",
    },
    CLI_NO_CONFIG_DIR: {
      exit: EXIT.usage,
      when: "no home directory is known to keep files in",
      fix: "Give --config-dir, or set SVC_CONFIG_DIR.",
    },
    CLI_CONFIG_INVALID: {
      exit: EXIT.failed,
      when: "config.json cannot be used",
      fix: "Repair or remove the file; it was left as it is.",
    },
    CLI_FILE_UNSAFE: {
      exit: EXIT.failed,
      when: "a file or directory is a link, is not yours, or can be written by others",
      fix: "Replace it by a plain one of your own.",
    },
    CLI_FILE_INVALID: {
      exit: EXIT.failed,
      when: "a file of the agent is missing or damaged",
      fix: "Restore it from a backup; if only tokens are lost, svc agent reissue <name> makes new ones.",
    },
    CLI_SAVE_FAILED: {
      exit: EXIT.failed,
      when: "a file could not be written",
      fix: "Make room or make the directory writable, then run the command again.",
    },
    CLI_AGENT_EXISTS: {
      exit: EXIT.failed,
      when: "an agent of this name is on this machine already",
      fix: "Choose another name, or delete that agent first; if its registry knows it no more, remove its folder.",
    },
    CLI_AGENT_UNKNOWN: {
      exit: EXIT.notFound,
      when: "no agent of this name is on this machine",
      fix: "svc agent list shows your agents, svc agent create makes one.",
    },
    CLI_CODE_UNKNOWN: {
      exit: EXIT.notFound,
      when: "there is no such error code",
      fix: "Codes are printed with every error.",
    },
    CLI_BUSY: {
      exit: EXIT.failed,
      when: "another svc process is at work on the same files",
      fix: "Wait until it is done, then run the command again.",
    },
    CLI_TOKEN_REFUSED: {
      exit: EXIT.failed,
      when: "the agent's identity token does not verify",
      fix: "svc agent reissue <name> gets a new one.",
    },
    CLI_UNREACHABLE: {
      exit: EXIT.unreachable,
      when: "the service cannot be reached, or did not answer as one",
      fix: "Check the address (svc config get registryUrl) and that the service runs.",
    },
    CLI_TLS_REFUSED: {
      exit: EXIT.unreachable,
      when: "the certificate of the service is refused",
      fix: "Give the authority's certificate with --ca <file>, or in DENO_CERT.",
    },
    CLI_CONNECTOR_DOWN: {
      exit: EXIT.unreachable,
      when: "the agent's connector does not run, or does not answer",
      fix: "svc connector start <name> starts it.",
    },
    CLI_SERVICE_FAILED: {
      exit: EXIT.failed,
      when: "the system did not take the service, or the connector did not come up in it",
      fix: "svc connector service logs <name> shows what it prints; svc connector start <name> runs it by hand.",
    },
    CLI_INTERRUPTED: {
      exit: EXIT.interrupted,
      when: "the command was interrupted",
      fix: "Run it again: it goes on where it was.",
    },
    CLI_UNEXPECTED: { exit: EXIT.failed, when: "something unexpected happened", fix: "Please report it." },
  } satisfies Record<string, CliErrorRow>,
);

export type CliErrorCode = keyof typeof CLI_ERRORS;

/** An error that the CLI itself finds. `API_KEY_MISSING` it knows before the registry would say so. */
export class CliError extends Error {
  override name = "CliError";
  /** In place of the table's cure. */
  readonly fix: string | undefined;

  constructor(
    readonly code: CliErrorCode | "API_KEY_MISSING",
    message: string,
    { cause, fix }: { cause?: unknown; fix?: string } = {},
  ) {
    super(message, { cause });
    this.fix = fix;
  }
}

/** The service refused. */
export class ApiError extends Error {
  override name = "ApiError";
  /** The code of the answer, `UNKNOWN_ERROR` for a text that cannot be a code, `null` when the answer had no envelope. */
  readonly code: string | null;
  /** In place of the table's fix. */
  fix: string | undefined;

  constructor(
    readonly status: number,
    code: string | null,
    message: string,
    readonly requestId: string | null,
    /** Seconds to wait, where the answer names them. */
    readonly retryAfter: number | null = null,
  ) {
    super(message);
    this.code = code === null ? null : errorCodeOf(code);
  }
}

/** True when the service has certainly not done what it was asked; of 408, 409 and 429 that cannot be said. */
export function wasRefused(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status >= 400 && error.status < 500 &&
    ![408, 409, 429].includes(error.status);
}

/** The service could not be reached, or did not answer as a service of this network does. */
export class UnreachableError extends Error {
  override name = "UnreachableError";
  /** In place of the table's fix. */
  readonly fix: string | undefined;
  readonly code: "CLI_UNREACHABLE" | "CLI_TLS_REFUSED";

  constructor(
    message: string,
    { cause, fix, code = "CLI_UNREACHABLE" }: { cause?: unknown; fix?: string; code?: UnreachableError["code"] } = {},
  ) {
    super(message, { cause });
    this.fix = fix;
    this.code = code;
  }
}

/** An error as it is shown. */
export interface Described {
  code: string;
  cause: string;
  /** The cure; empty where none is known. */
  fix: string;
  exit: number;
  requestId: string | null;
}

/** In place of the table's cure where the CLI has a command for it. */
const CLI_FIXES: Readonly<Record<string, string>> = {
  API_KEY_MISSING: "Save one with svc config set apiKey -, or get one with svc invite redeem <code>.",
  API_KEY_INVALID: "Save the right one with svc config set apiKey -, and check svc config get registryUrl.",
  API_KEY_NOT_FOUND: "svc api-key list shows the ids of your keys.",
  AGENT_NOT_FOUND:
    "svc agent list shows your agents. One of another registry or account can only be removed as a folder.",
  INTERNAL_SERVICE_NOT_FOUND: "svc admin service list shows the ids of the services.",
  ADMIN_BOOTSTRAP_UNAUTHORIZED: "Give the registry's own secret with --bootstrap-secret or SVC_BOOTSTRAP_SECRET.",
  ADMIN_BOOTSTRAP_ALREADY_COMPLETED: "Save the admin's API key with svc config set apiKey -, or ask for an invite.",
  AGENT_AUTH_REFRESH_REVOKED: "svc agent reissue <name> starts a new session.",
  AGENT_AUTH_REFRESH_EXPIRED: "svc agent auth revoke <name>, then svc agent reissue <name>, starts a new session.",
  AGENT_AUTH_REFRESH_INVALID: "svc agent auth revoke <name>, then svc agent reissue <name>, starts a new session.",
  AGENT_AUTH_REFRESH_UNAUTHORIZED: "Check this machine's clock; svc agent reissue <name> gets a new identity token.",
};

/** Code, cause, cure and exit code of anything that was thrown. */
export function describe(error: unknown): Described {
  if (error instanceof CliError) {
    const row = error.code === "API_KEY_MISSING"
      ? { exit: EXIT.unauthorised, fix: CLI_FIXES[error.code] ?? "" }
      : CLI_ERRORS[error.code];
    return { code: error.code, cause: error.message, fix: error.fix ?? row.fix, exit: row.exit, requestId: null };
  }
  if (error instanceof ApiError) {
    const { code, status, requestId, retryAfter } = error;
    const known = code !== null && isErrorCode(code) ? ERRORS[code].fix : "";
    const usual = error.fix ?? CLI_FIXES[code ?? ""] ?? known;
    const fix = retryAfter === null ? usual : `Wait ${retryAfter} s, then run the command again.`;
    return { code: code ?? `HTTP_${status}`, cause: error.message, fix, exit: exitOf(status), requestId };
  }
  if (error instanceof UnreachableError) {
    const { exit, fix } = CLI_ERRORS[error.code];
    return { code: error.code, cause: error.message, fix: error.fix ?? fix, exit, requestId: null };
  }
  const { exit, fix } = CLI_ERRORS.CLI_UNEXPECTED;
  const cause = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { code: "CLI_UNEXPECTED", cause, fix, exit, requestId: null };
}

/** The exit code that a refusal means. */
export function exitOf(status: number): number {
  if (status === 401 || status === 403) return EXIT.unauthorised;
  return status === 404 ? EXIT.notFound : EXIT.failed;
}
