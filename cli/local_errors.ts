/**
 * The errors of the connector's local API: code, status, condition and fix. A code that only a connector uses begins
 * with `CONNECTOR_`, because a program could otherwise not tell it from one of the proxy, which is passed on unchanged.
 */
import { ApiError } from "../shared/client/errors.ts";

interface LocalErrorRow {
  status: number;
  /** The condition. It is also the message, unless the code that throws gives a more exact one. */
  when: string;
  /** What to do, for commands, MCP tools, `svc explain` and documents. A response of the local API does not have it. */
  fix: string;
}

export const LOCAL_ERRORS = Object.freeze(
  {
    CONNECTOR_HOST_FORBIDDEN: {
      status: 403,
      when: "The Host header is not this connector's address",
      fix: "Use the address in connector.json.",
    },
    CONNECTOR_ORIGIN_FORBIDDEN: {
      status: 403,
      when: "Requests of web pages are rejected: those with Origin, or with a Sec-Fetch-Site other than none",
      fix: "Call the local API from a program, because any page could otherwise send as the agent.",
    },
    CONNECTOR_UNAUTHORIZED: {
      status: 401,
      when: "Missing or wrong token: send Authorization: Bearer with the token in this agent's connector.json",
      fix: "The token changes at each start. svc connector prints commands that use it.",
    },
    CONNECTOR_INVALID_BODY: {
      status: 400,
      when: "The body or the query is invalid",
      fix: "docs/local-api.md and GET /openapi.json describe each request.",
    },
    CONNECTOR_PEER_UNKNOWN: {
      status: 404,
      when: "No peer has this alias or DID",
      fix:
        "svc peers --agent <name> lists the agent's peers. To pair with another agent, press p in the terminal of svc " +
        "connector start <name>; for a connector that runs elsewhere, svc connector <name> prints the commands.",
    },
    CONNECTOR_PEER_BLOCKED: {
      status: 409,
      when: "This agent has blocked the peer, so nothing is sent to it",
      fix: "svc peers unblock <peer> --agent <name> ends that.",
    },
    CONNECTOR_ALIAS_TAKEN: {
      status: 409,
      when: "The peer cannot have this alias",
      fix:
        "Choose another one. svc peers --agent <name> lists the peers with their aliases. The new agent of a peer gets its " +
        "alias with svc peers rename <new> <alias> --replaces --agent <name>.",
    },
    CONNECTOR_PEER_UNCONFIRMED: {
      status: 409,
      when: "The peer did not prove a ticket, and this agent refuses contacts (--strict)",
      fix: "Pair with it by a ticket: svc connector start, then p. Or start the connector without --strict.",
    },
    CONNECTOR_PEER_KEY_MISMATCH: {
      status: 409,
      when: "The answer to the ticket does not come from the agent that made it. The two agents are not paired",
      fix: "Ask the other person for a new ticket. If it happens again, the proxy is not to be trusted.",
    },
    CONNECTOR_MESSAGE_UNKNOWN: {
      status: 404,
      when: "There is no such message",
      fix:
        "svc inbox --agent <name> and svc sent --agent <name> list the messages of this agent. svc log --help says how long they " +
        "are kept.",
    },
    CONNECTOR_RUNTIME_PUSHES: {
      status: 409,
      when: "The messages of this agent go to its runtime, so they cannot be read here",
      fix: "To read them instead, run svc install --for inbox --agent-name <name> and start the connector again.",
    },
    CONNECTOR_LOOP_GUARD: {
      status: 429,
      when: "Too many messages in a short time without a decision of a person",
      fix: "Wait as long as Retry-After says, if it is there, or let a person send the message.",
    },
    CONNECTOR_BUSY: {
      status: 429,
      when: "Too many calls are waiting already",
      fix: "Call again without the parameter wait, or when another call has ended.",
    },
    CONNECTOR_OUTBOX_FULL: {
      status: 507,
      when: "The messages that wait in the connector take up all their space, so nothing was stored",
      fix:
        "Wait until the server takes some, or end one: svc sent --cancel <request ID> --agent <name>. svc connector status <name> shows the link.",
    },
    CONNECTOR_OFF_PORT: {
      status: 503,
      when: "Another program has this agent's port, so its A2A addresses and its web page are off",
      fix: "Stop that program, or choose another port: svc connector start <name> --port <port>.",
    },
    CONNECTOR_PROXY_UNREACHABLE: {
      status: 502,
      when: "The proxy cannot be reached",
      fix: "Check its address and that it runs. svc connector status <name> shows the link to the agent's own server.",
    },
    CONNECTOR_DISK_FULL: {
      status: 507,
      when: "The disk of this machine is full, so this could not be stored",
      fix: "Free some space on the disk of the configuration directory, then call again.",
    },
    NOT_FOUND: {
      status: 404,
      when: "There is no such route",
      fix: "docs/local-api.md and GET /openapi.json list the routes.",
    },
    METHOD_NOT_ALLOWED: {
      status: 405,
      when: "The route does not have this method",
      fix: "docs/local-api.md and GET /openapi.json describe each request.",
    },
    PAYLOAD_TOO_LARGE: { status: 413, when: "The body is too large", fix: "Send less." },
    INTERNAL_ERROR: { status: 500, when: "An unexpected error occurred", fix: "Please report it." },
  } satisfies Record<string, LocalErrorRow>,
);

export type LocalCode = keyof typeof LOCAL_ERRORS;

/** A refusal of the connector, or of a command that does its work while none runs. */
export class LocalError extends ApiError {
  override name = "LocalError";
  declare readonly code: LocalCode;

  /** @param retryAfter seconds after which the call may succeed; `null` when that time is not known */
  constructor(code: LocalCode, message: string = LOCAL_ERRORS[code].when, retryAfter: number | null = null) {
    super(LOCAL_ERRORS[code].status, code, message, null, retryAfter);
  }
}

/** Codes that only a connector uses; the services have the others too. */
export const CONNECTOR_CODES = Object.keys(LOCAL_ERRORS).filter((code) => code.startsWith("CONNECTOR_"));
