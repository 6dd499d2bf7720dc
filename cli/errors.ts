/**
 * The CLI's own errors, and the description of any error by code, cause, fix and exit code, because scripts act on the
 * code and people on the fix. output.ts prints them. The errors of the services are in shared/client/errors.ts.
 */
import { ApiError, LocalDown, UnreachableError } from "../shared/client/errors.ts";
import { ERRORS, isErrorCode } from "../shared/protocol/errors.ts";
import { withoutSecrets } from "../shared/redaction.ts";
import { CONNECTOR_CODES, LOCAL_ERRORS, type LocalCode } from "./local_errors.ts";

/** Exit codes. `interrupted` is the shell's number for a program that SIGINT ended. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  unauthorised: 3,
  notFound: 4,
  unreachable: 5,
  /**
   * The message was accepted, but no reply came in time. This has a code of its own, because a script that takes it for
   * a failure would send again, and so ask twice.
   */
  noReply: 6,
  interrupted: 130,
} as const;

/**
 * The exit codes of a usage error, a refused authorisation and a missing agent. After these a service is not started
 * again, because each start would end in the same way.
 */
export const FINAL_EXITS: readonly number[] = [EXIT.usage, EXIT.unauthorised, EXIT.notFound];

/** The CLI's own codes; without `exit` a command ends with 1. `fix` says in one imperative sentence what to do. */
const OWN_ERRORS = {
  CLI_USAGE: { exit: EXIT.usage, when: "the command line is invalid", fix: "Run the command with --help." },
  CLI_PLATFORM_CHANGE: {
    exit: EXIT.usage,
    when: "unread messages would go to a runtime, and no person agreed",
    fix: "Read them with svc inbox --agent <name>, or add --yes to hand them over.",
  },
  CLI_INSECURE_URL: {
    exit: EXIT.usage,
    when: "the address is plain http to another machine, or that of a runtime on another machine",
    fix: "Use https, or add --allow-insecure if no other party can read that network.",
  },
  CLI_NO_CONFIG_DIR: {
    exit: EXIT.usage,
    when: "no home directory is set",
    fix: "Set HOME; if only the configuration needs it, --config-dir or SVC_CONFIG_DIR is enough.",
  },
  CLI_CONFIG_INVALID: {
    when: "config.json cannot be used",
    fix: "Repair or remove the file; svc has not changed it.",
  },
  CLI_CONFIG_IN_USE: {
    when: "config.json holds the API key of an account",
    fix: "Add --profile <profile> for another account, or --replace to give this one up.",
  },
  CLI_REGISTRY_MISMATCH: {
    when: "the registry at the address of a join link has another address",
    fix: "Ask for a new link; svc invite create prints it with the registry's own address.",
  },
  CLI_FILE_UNSAFE: {
    when: "a file or directory is a link, belongs to another user, or is writable by others",
    fix: "Replace it with a plain file or directory that you own.",
  },
  CLI_FILE_INVALID: {
    when: "a file is missing, damaged or too large",
    fix: "Restore it from a backup; if only tokens are lost, run svc agent reissue <name>.",
  },
  CLI_SAVE_FAILED: {
    when: "a file could not be written",
    fix: "Free disk space or make the directory writable, then run the command again.",
  },
  CLI_AGENT_EXISTS: {
    when: "an agent with this name already exists on this machine",
    fix: "Choose another name, or delete that agent first. If its registry no longer has it, remove its folder.",
  },
  CLI_AGENT_UNKNOWN: {
    exit: EXIT.notFound,
    when: "the configuration folder has no agent with this name",
    fix: "Run svc agent list to see your agents, or svc agent create <name> to create one.",
  },
  CLI_AMBIGUOUS: {
    exit: EXIT.usage,
    when: "several have the name that was given",
    fix: "Give the ID or the DID of the one that you mean.",
  },
  CLI_NAME_UNKNOWN: {
    exit: EXIT.notFound,
    when: "no person or agent of the registry has the name that was given",
    fix: "Run svc admin people list or svc admin agents list to see the names.",
  },
  CLI_MESSAGE_UNKNOWN: {
    exit: EXIT.notFound,
    when: "no message has the ID that was given",
    fix: "Check the ID; svc sent --wide shows whole ones.",
  },
  CLI_CODE_UNKNOWN: {
    exit: EXIT.notFound,
    when: "there is no such error code",
    fix: "Copy the code from the error that svc printed.",
  },
  CLI_BUSY: {
    when: "another program is using the same files or the same port",
    fix: "Wait until it has finished, then run the command again.",
  },
  CLI_TOKEN_REFUSED: {
    when: "the agent's identity token does not verify",
    fix: "Run svc agent reissue <name> to get a new one.",
  },
  CLI_UNREACHABLE: {
    exit: EXIT.unreachable,
    when: "the service is unreachable, or its answer is not valid",
    fix: "Check that the service runs at this address. The saved one: svc config get registryUrl.",
  },
  CLI_TLS_REFUSED: {
    exit: EXIT.unreachable,
    when: "the certificate of the service is rejected",
    fix: "Give the authority's certificate with --ca <file>, or in DENO_CERT.",
  },
  CLI_CONNECTOR_DOWN: {
    exit: EXIT.unreachable,
    when: "the agent's connector is not running, or does not answer",
    fix: "Run svc connector start <name> to start it.",
  },
  CLI_NO_REPLY: {
    exit: EXIT.noReply,
    when: "the message was accepted, and no reply came in time",
    fix: "Wait longer with --timeout; svc inbox --agent <name> has a later reply.",
  },
  CLI_SERVICE_FAILED: {
    when: "the service manager rejected the service, or the connector in it did not start",
    fix: "Run svc connector service logs <name> to see its output, or svc connector start <name> to run it by hand.",
  },
  CLI_NO_SERVER: {
    exit: EXIT.usage,
    when: "this build of the command has no server",
    fix: "Use the svc of a release or of the project's folder, which holds the server.",
  },
  CLI_SERVER_REFUSED: {
    exit: EXIT.usage,
    when: "the server, or the work on its store, cannot start with this configuration, address or store",
    fix: "Change what the message names, then start it again.",
  },
  CLI_STORE_FAILED: {
    when: "the work on the store could not be done",
    fix: "Do what the message says.",
  },
  CLI_INTERRUPTED: {
    exit: EXIT.interrupted,
    when: "the command was interrupted",
    fix: "Run the command again to resume.",
  },
  CLI_UNEXPECTED: { when: "an unexpected error occurred", fix: "Please report it." },
} satisfies Record<string, { exit?: number; when: string; fix: string }>;

export type CliErrorCode = keyof typeof OWN_ERRORS;
export const CLI_ERRORS: Readonly<Record<CliErrorCode, { exit?: number; when: string; fix: string }>> = OWN_ERRORS;

/** Codes of the services for what the CLI notices before it sends a request, with their exit codes. */
const DETECTED_HERE = { API_KEY_MISSING: EXIT.unauthorised, PAYLOAD_TOO_LARGE: EXIT.failed } as const;

/** An error that the CLI itself detects. */
export class CliError extends Error {
  override name = "CliError";
  /** Replaces the fix of the table. */
  fix: string | undefined;
  /** Lines below the message, one for each problem. */
  readonly details: readonly string[];

  constructor(
    readonly code: CliErrorCode | keyof typeof DETECTED_HERE,
    message: string,
    { cause, fix, details = [] }: { cause?: unknown; fix?: string | undefined; details?: readonly string[] } = {},
  ) {
    super(message, { cause });
    this.fix = fix;
    this.details = details;
  }
}

export interface Described {
  code: string;
  cause: string;
  details?: readonly string[];
  /** What the user can do; empty when there is no known fix. */
  fix: string;
  exit: number;
  requestId: string | null;
}

const NEW_TICKET = "For a new one, press p in the terminal of the other agent's svc connector start.";

/** Fixes of service errors that name a command of the CLI; they replace those of the protocol's table. */
const CLI_FIXES: Readonly<Record<string, string>> = {
  API_KEY_MISSING: "Save one with svc config set apiKey -, or paste the link of an invite into svc join -.",
  API_KEY_INVALID:
    "Save a valid one with svc config set apiKey -, and check svc config get registryUrl. Where the account is gone: svc join <link> --replace.",
  API_KEY_NOT_FOUND: "Run svc api-key list to see the IDs of your keys.",
  AGENT_NOT_FOUND:
    "Run svc agent list to see your agents. If it belongs to another registry or account, remove its folder.",
  PERSON_NOT_FOUND: "Run svc admin people list to see the IDs of the people.",
  INVITE_NOT_FOUND: "Run svc invite list to see the IDs of the invites.",
  INTERNAL_SERVICE_NOT_FOUND: "Run svc admin service list to see the IDs of the services.",
  ADMIN_BOOTSTRAP_UNAUTHORIZED:
    "Give the registry's BOOTSTRAP_SECRET with --bootstrap-secret or SVC_BOOTSTRAP_SECRET. Where none is set, svc serve makes a new one at each start and prints it. A server that has an admin prints none: ask that admin for an invite.",
  // The caller had the bootstrap secret, so it is the operator, who can reach the store.
  ADMIN_BOOTSTRAP_ALREADY_COMPLETED:
    "Save the admin's API key with svc config set apiKey -, or ask for an invite. If every admin has lost the key: stop the " +
    "server and run svc store recover on its host.",
  PROXY_AUTH_FORBIDDEN:
    "To pair: press p in the terminal of svc connector start <name>, or paste a ticket of the other person there.",
  PROXY_PAIR_TICKET_NOT_FOUND: `Copy the whole ticket again. ${NEW_TICKET}`,
  PROXY_PAIR_TICKET_EXPIRED: NEW_TICKET,
  PROXY_PAIR_TICKET_ALREADY_CONFIRMED: `A ticket works once. ${NEW_TICKET}`,
  PROXY_RELAY_CONNECTOR_OFFLINE:
    "Try again when svc peers --agent <name> shows the peer as online. Without --only-online, svc send lets a message wait for it.",
  PAYLOAD_TOO_LARGE: "Send it in several messages.",
  PROXY_HOOK_REQUEST_ID_REUSED: "Give another --request-id, or none: svc then makes a new one for each message.",
  PROXY_AUTH_INVALID_AIT:
    "Where another server refuses the agent, pair again by a new ticket. Where its own server does for over a minute, " +
    "run svc agent reissue <name> to get a new identity token.",
  PROXY_AUTH_INVALID_PROOF:
    "If the named origin is a new address of the server, run svc config init and start the connector again. Else its reverse " +
    "proxy may change the method, the path or the query of requests.",
  PROXY_AGENT_ACCESS_INVALID:
    "Run svc agent auth refresh <name>. If that is refused, its answer names the next command.",
  PROXY_PAIR_OWNERSHIP_FORBIDDEN:
    "Run svc agent auth refresh <name>. If that is refused, its answer names the reason; else the other agent has ended.",
  AGENT_AUTH_REFRESH_REVOKED: "Run svc agent reissue <name> to start a new session.",
  AGENT_REISSUE_INVALID_STATE:
    "If another command changed the agent, try again. A deleted agent does not come back: run svc agent delete <name>, " +
    "then svc agent create <name>, and pair it by a new ticket.",
  // After a lost answer the old token expires while the session lives, and a reissue alone begins none beside it.
  AGENT_AUTH_REFRESH_EXPIRED:
    "Run svc agent auth revoke <name>, then svc agent reissue <name>, to start a new session.",
  AGENT_AUTH_REFRESH_INVALID:
    "If a copy of the agent runs elsewhere, stop it first: each one ends the session of the other. Run svc agent auth revoke <name>, " +
    "then svc agent reissue <name>, to start a new session.",
  AGENT_AUTH_REFRESH_UNAUTHORIZED:
    "Check this machine's clock, or run svc agent reissue <name> to get a new identity token.",
};

/** The fix for an answer without an error of svc, as another program or a gateway gives it. */
export const FOREIGN_ANSWER =
  "Check that the address (svc config get registryUrl) is that of an svc server, and that the server runs.";

/** The fix for a file or folder that the system lets this user neither read nor change. */
export const NOT_YOURS =
  "Run svc as the owner of that file, or give it back to your user: svc with sudo leaves files of root.";

/** As `describe`, with the name of the agent in the fix, whose commands would otherwise not work when pasted. */
export function describeFor(agentName: string, error: unknown): Described {
  const described = describe(error);
  return { ...described, fix: described.fix.replaceAll("<name>", agentName) };
}

/** Puts the name of the agent into the fix of an error, for what prints it later and does not know the agent. */
export function nameAgentIn(error: unknown, agentName: string): void {
  if (error instanceof ApiError || error instanceof CliError) error.fix = describeFor(agentName, error).fix;
}

export function describe(error: unknown): Described {
  if (error instanceof CliError) {
    const { code, message: cause, details } = error;
    const { exit = EXIT.failed, fix } = code === "API_KEY_MISSING" || code === "PAYLOAD_TOO_LARGE"
      ? { exit: DETECTED_HERE[code], fix: fixOf(code) }
      : CLI_ERRORS[code];
    return { code, cause, details, fix: error.fix ?? fix, exit, requestId: null };
  }
  if (error instanceof ApiError) {
    const { code, status, requestId, retryAfter } = error;
    const usual = error.fix ?? (code === null ? FOREIGN_ANSWER : fixOf(code));
    const fix = retryAfter === null ? usual : `Wait ${retryAfter} s, then run the command again.`;
    return { code: code ?? `HTTP_${status}`, cause: error.message, fix, exit: exitOf(status, code), requestId };
  }
  if (error instanceof LocalDown) {
    const start = `svc connector start ${error.agentName}`;
    const fix = error.silentPid === null ? start : `Stop process ${error.silentPid}, then run ${start}.`;
    return describe(new CliError("CLI_CONNECTOR_DOWN", error.message, { fix }));
  }
  if (error instanceof UnreachableError) return describe(new CliError(error.code, error.message, { fix: error.fix }));
  if (error instanceof Error && error.message.includes("No space left on device")) {
    return describe(new CliError("CLI_SAVE_FAILED", "The disk is full"));
  }
  const closed = error instanceof Deno.errors.PermissionDenied &&
    /^Permission denied .*'(.+)'$/.exec(error.message)?.[1];
  if (closed) {
    return describe(new CliError("CLI_FILE_UNSAFE", `${closed}: permission denied`, { fix: NOT_YOURS }));
  }
  const said = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return describe(new CliError("CLI_UNEXPECTED", withoutSecrets(said)));
}

/** The fix of a code of the connector or of a service; empty for any other. */
export function fixOf(code: string): string {
  if (CONNECTOR_CODES.includes(code)) return LOCAL_ERRORS[code as LocalCode].fix;
  return CLI_FIXES[code] ?? (isErrorCode(code) ? ERRORS[code].fix : "");
}

export function exitOf(status: number, code: string | null = null): number {
  // The connector answers, but the service behind it does not, so the exit code is that of an unreachable service.
  if (code === "CONNECTOR_PROXY_UNREACHABLE") return EXIT.unreachable;
  if (status === 401 || status === 403) return EXIT.unauthorised;
  return status === 404 ? EXIT.notFound : EXIT.failed;
}
