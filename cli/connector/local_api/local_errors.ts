/** THE errors of the connector's local API: code, status, condition and cure. Those of the proxy are passed on as they are. */

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
      when: "The Host header is not that of this connector",
      fix: "Call it by the address in connector.json.",
    },
    CONNECTOR_ORIGIN_FORBIDDEN: {
      status: 403,
      when: "Web pages have no business here: the request has an Origin",
      fix: "Call it from a program, not from a page.",
    },
    CONNECTOR_UNAUTHORIZED: {
      status: 401,
      when: "The token is not that of this agent's connector.json: Authorization: Bearer <token>",
      fix: "It is new at each start: svc connector prints lines that have it.",
    },
    CONNECTOR_INVALID_BODY: {
      status: 400,
      when: "The body or the query is not right",
      fix: "svc connector shows each request.",
    },
    CONNECTOR_PEER_UNKNOWN: {
      status: 404,
      when: "No peer has this alias, and it is not a DID",
      fix: "svc connector shows how to list the peers, and how to pair.",
    },
    CONNECTOR_PROXY_UNREACHABLE: {
      status: 502,
      when: "The proxy cannot be reached",
      fix: "svc connector status shows why, and when it is tried again.",
    },
    NOT_FOUND: { status: 404, when: "There is no such route", fix: "svc connector shows the routes." },
    METHOD_NOT_ALLOWED: { status: 405, when: "The route has other methods", fix: "svc connector shows each request." },
    PAYLOAD_TOO_LARGE: { status: 413, when: "The body is too large", fix: "Send less." },
    INTERNAL_ERROR: { status: 500, when: "Something unexpected happened", fix: "Please report it." },
  } satisfies Record<string, LocalErrorRow>,
);

export type LocalCode = keyof typeof LOCAL_ERRORS;

/** Codes that only a connector answers with; the others the services have, too. */
export const CONNECTOR_CODES = Object.keys(LOCAL_ERRORS).filter((code) => code.startsWith("CONNECTOR_"));
