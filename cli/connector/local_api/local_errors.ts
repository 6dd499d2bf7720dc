/** The errors of the connector's local API: code, status, condition and fix. Errors of the proxy are passed on unchanged. */

interface LocalErrorRow {
  status: number;
  /** The condition, also the message. */
  when: string;
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
      when: "Requests with an Origin header are rejected",
      fix: "Call it from a program, not from a web page.",
    },
    CONNECTOR_UNAUTHORIZED: {
      status: 401,
      when: "Missing or wrong token: send Authorization: Bearer with the token in this agent's connector.json",
      fix: "The token changes at each start. svc connector prints commands that use it.",
    },
    CONNECTOR_INVALID_BODY: {
      status: 400,
      when: "The body or the query is invalid",
      fix: "svc connector shows each request.",
    },
    CONNECTOR_PEER_UNKNOWN: {
      status: 404,
      when: "No peer has this alias, and it is not a DID",
      fix: "svc connector shows how to list peers and how to pair.",
    },
    CONNECTOR_PROXY_UNREACHABLE: {
      status: 502,
      when: "The proxy cannot be reached",
      fix: "svc connector status shows the reason and the next attempt.",
    },
    NOT_FOUND: { status: 404, when: "There is no such route", fix: "svc connector shows the routes." },
    METHOD_NOT_ALLOWED: {
      status: 405,
      when: "The route does not have this method",
      fix: "svc connector shows each request.",
    },
    PAYLOAD_TOO_LARGE: { status: 413, when: "The body is too large", fix: "Send less." },
    INTERNAL_ERROR: { status: 500, when: "An unexpected error occurred", fix: "Please report it." },
  } satisfies Record<string, LocalErrorRow>,
);

export type LocalCode = keyof typeof LOCAL_ERRORS;

/** Codes that only a connector uses; the services have the others too. */
export const CONNECTOR_CODES = Object.keys(LOCAL_ERRORS).filter((code) => code.startsWith("CONNECTOR_"));
