/**
 * Names and numbers of the A2A protocol 1.0 in its JSON-RPC binding, and texts of its parts. Used on both
 * sides: towards a runtime that is an A2A agent, and towards a local A2A client. https://a2a-protocol.org/v1.0.0/
 */
import * as z from "zod";

export const A2A_VERSION_HEADER = "A2A-Version";
export const A2A_VERSION = "1.0";
export const CARD_PATH = "/.well-known/agent-card.json";

export const RPC_ERROR = Object.freeze({
  parse: -32700,
  request: -32600,
  method: -32601,
  params: -32602,
  internal: -32603,
  taskNotFound: -32001,
  taskNotCancelable: -32002,
  pushNotSupported: -32003,
  unsupported: -32004,
  contentType: -32005,
  extendedCard: -32007,
  version: -32009,
});

/** Reasons of the errors in `google.rpc.ErrorInfo`: the name of the error without its ending (section 9.5). */
const REASONS: Readonly<Record<keyof typeof RPC_ERROR, string>> = {
  parse: "JSON_PARSE",
  request: "INVALID_REQUEST",
  method: "METHOD_NOT_FOUND",
  params: "INVALID_PARAMS",
  internal: "INTERNAL",
  taskNotFound: "TASK_NOT_FOUND",
  taskNotCancelable: "TASK_NOT_CANCELABLE",
  pushNotSupported: "PUSH_NOTIFICATION_NOT_SUPPORTED",
  unsupported: "UNSUPPORTED_OPERATION",
  contentType: "CONTENT_TYPE_NOT_SUPPORTED",
  extendedCard: "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
  version: "VERSION_NOT_SUPPORTED",
};

export function rpcError(name: keyof typeof RPC_ERROR, message: string) {
  const info = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    reason: REASONS[name],
    domain: "a2a-protocol.org",
  };
  return { code: RPC_ERROR[name], message, data: [info] };
}

export const TASK_STATES = [
  "TASK_STATE_SUBMITTED",
  "TASK_STATE_WORKING",
  "TASK_STATE_COMPLETED",
  "TASK_STATE_FAILED",
  "TASK_STATE_CANCELED",
  "TASK_STATE_REJECTED",
  "TASK_STATE_INPUT_REQUIRED",
  "TASK_STATE_AUTH_REQUIRED",
] as const;
export type TaskState = (typeof TASK_STATES)[number];

/** A part of a message or artifact: a text, data, or a file as `raw` or `url`. */
export const Part = z.looseObject({ text: z.string().optional(), data: z.unknown().optional() });
export type Part = z.infer<typeof Part>;

/** The text of parts, a line each: data as JSON, files left out. Data that is too deep for a text is left out too. */
export function textOfParts(parts: readonly Part[]): string {
  return parts.map((part) => part.text ?? (Object.hasOwn(part, "data") ? dataText(part.data) : "[file left out]"))
    .join("\n");
}

function dataText(data: unknown): string {
  try {
    return JSON.stringify(data) ?? "null";
  } catch {
    return "[data left out]";
  }
}
