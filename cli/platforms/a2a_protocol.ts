/**
 * Names and numbers of the A2A protocol 1.0 in its JSON-RPC binding, and texts of its parts. Used on both
 * sides: towards a runtime that is an A2A agent, and towards a local A2A client. https://a2a-protocol.org/v1.0.0/
 */
import * as z from "zod";

export const A2A_VERSION_HEADER = "A2A-Version";
export const A2A_VERSION = "1.0";
export const CARD_PATH = "/.well-known/agent-card.json";

/** Each error has a code, and a reason for `google.rpc.ErrorInfo`: its name without the final `Error` (section 9.5). */
export const RPC_ERROR = {
  parse: { code: -32700, reason: "JSON_PARSE" },
  request: { code: -32600, reason: "INVALID_REQUEST" },
  method: { code: -32601, reason: "METHOD_NOT_FOUND" },
  params: { code: -32602, reason: "INVALID_PARAMS" },
  internal: { code: -32603, reason: "INTERNAL" },
  taskNotFound: { code: -32001, reason: "TASK_NOT_FOUND" },
  taskNotCancelable: { code: -32002, reason: "TASK_NOT_CANCELABLE" },
  pushNotSupported: { code: -32003, reason: "PUSH_NOTIFICATION_NOT_SUPPORTED" },
  unsupported: { code: -32004, reason: "UNSUPPORTED_OPERATION" },
  contentType: { code: -32005, reason: "CONTENT_TYPE_NOT_SUPPORTED" },
  extendedCard: { code: -32007, reason: "EXTENDED_AGENT_CARD_NOT_CONFIGURED" },
  version: { code: -32009, reason: "VERSION_NOT_SUPPORTED" },
} as const;

export function rpcError(name: keyof typeof RPC_ERROR, message: string) {
  const { code, reason } = RPC_ERROR[name];
  const info = { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason, domain: "a2a-protocol.org" };
  return { code, message, data: [info] };
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

/** The text of parts, a line each. Data is JSON; a note stands for a file, and for data nested too deep for JSON. */
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
