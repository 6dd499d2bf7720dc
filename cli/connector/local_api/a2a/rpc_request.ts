/**
 * Requests of local A2A clients (D-135): turns the text of a body into a call, or into an error of JSON-RPC. The data
 * of a message is copied from the text, because its parsed value has large numbers rounded.
 */
import * as z from "zod";
import { utf8Bytes } from "../../../../shared/protocol/base64url.ts";
import { firstProblem, inputText } from "../../../../shared/protocol/input_text.ts";
import { arrayElements, memberText, parseOrThrow } from "../../../../shared/protocol/json_text.ts";
import { Part, type RPC_ERROR, TASK_STATES } from "../../../platforms/a2a_protocol.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { TaskCursor } from "../../store/sent_messages.ts";

/** The ID of a request as JSON text. As a value, a large number would lose digits, and its client finds no answer. */
export type RpcId = string;

/** An error of JSON-RPC. Its `id` is that of the request, `null` when that is unknown. */
export class RpcError extends Error {
  override name = "RpcError";

  constructor(readonly code: keyof typeof RPC_ERROR, message: string, readonly id: RpcId = "null") {
    super(message);
  }
}

export interface ClientMessage {
  messageId: string;
  contextId: string | undefined;
  taskId: string | undefined;
  /** JSON text. */
  payload: string;
  returnImmediately: boolean;
}

export type RpcCall =
  | { method: "ListTasks"; id: RpcId; query: TaskQuery }
  | { method: "SendMessage"; id: RpcId; message: ClientMessage }
  | { method: "GetTask" | "CancelTask"; id: RpcId; taskId: string };

const Envelope = z.object({
  jsonrpc: z.literal("2.0"),
  id: z.union([z.string().max(1_024), z.number(), z.null()]),
  method: z.string().max(128),
  params: z.unknown().optional(),
});

/** An optional member; a blank one counts as absent, as in the JSON form of Protocol Buffers. */
const optional = <S extends z.ZodType>(schema: S, blank = "") =>
  z.preprocess((value) => value === "" || value === null || value === blank ? undefined : value, schema.optional());

/** Parts of a message. With more, one body of invalid parts would hold up the connector for a second. */
const PARTS_MAX = 1_000;

const SendParams = z.looseObject({
  message: z.looseObject({
    messageId: z.string().min(1).max(128),
    contextId: optional(
      z.string().regex(/^[A-Za-z0-9._:-]{1,128}$/, "must be 1 to 128 of A-Z, a-z, 0-9, '.', '_', ':', '-'"),
    ),
    taskId: optional(z.string().max(512)),
    role: z.literal("ROLE_USER"),
    parts: z.array(Part).min(1).max(PARTS_MAX),
  }),
  configuration: z.looseObject({
    returnImmediately: z.boolean().nullish(),
    taskPushNotificationConfig: z.unknown().optional(),
  }).nullish(),
});
/** Tasks in a page when the client names no number (section 3.1.4). */
const PAGE_TASKS = 50;
/** The parameters of section 3.1.4 of A2A. The page token holds the two numbers of a `TaskCursor`. */
const ListParams = z.looseObject({
  contextId: optional(z.string().max(512)),
  status: optional(z.enum(TASK_STATES), "TASK_STATE_UNSPECIFIED"),
  pageSize: z.int().min(1).max(100).nullish(),
  pageToken: optional(z.string().regex(/^\d{1,15}\.\d{1,15}$/, "must be the nextPageToken of a response")),
  statusTimestampAfter: optional(z.iso.datetime({ offset: true })),
  includeArtifacts: z.boolean().nullish(),
}).optional().transform((given) => {
  const { contextId, status, pageSize, pageToken, statusTimestampAfter, includeArtifacts } = given ?? {};
  const [at, seq] = (pageToken ?? "").split(".").map(Number);
  return {
    contextId,
    status,
    /** Only tasks whose state is not older than this, milliseconds since the Unix epoch. */
    since: statusTimestampAfter === undefined ? 0 : Date.parse(statusTimestampAfter),
    /** Where the page begins; `undefined` for the first one. */
    before: at === undefined || seq === undefined ? undefined : { at, seq } satisfies TaskCursor,
    limit: pageSize ?? PAGE_TASKS,
    hasArtifacts: includeArtifacts ?? false,
  };
});
export type TaskQuery = z.output<typeof ListParams>;
const TaskParams = z.looseObject({ id: z.string().min(1).max(512) });

/** Known methods that are not served, each with its error. */
const NOT_SERVED: Readonly<Record<string, keyof typeof RPC_ERROR>> = {
  SendStreamingMessage: "unsupported",
  SubscribeToTask: "unsupported",
  CreateTaskPushNotificationConfig: "pushNotSupported",
  GetTaskPushNotificationConfig: "pushNotSupported",
  ListTaskPushNotificationConfig: "pushNotSupported",
  ListTaskPushNotificationConfigs: "pushNotSupported",
  DeleteTaskPushNotificationConfig: "pushNotSupported",
  GetExtendedAgentCard: "extendedCard",
};

/**
 * @param version the header `A2A-Version`; `null` counts as 1.0
 * @throws {RpcError}
 */
export function parseCall(text: string, version: string | null): RpcCall {
  const { id, method, params } = envelopeOf(text);
  const refuse = (code: keyof typeof RPC_ERROR, message: string) => new RpcError(code, message, id);
  if (version !== null && !/^1\.\d{1,3}$/.test(version)) throw refuse("version", "Only A2A 1.x is served");
  const checked = <S extends z.ZodType>(schema: S): z.output<S> => {
    const { success, data, error } = schema.safeParse(params, { error: inputText });
    if (success) return data;
    throw refuse("params", `Invalid params: ${firstProblem(error)}`);
  };
  switch (method) {
    case "SendMessage": {
      const { message: { messageId, contextId, taskId, parts }, configuration } = checked(SendParams);
      const { returnImmediately, taskPushNotificationConfig } = configuration ?? {};
      if (taskPushNotificationConfig !== undefined && taskPushNotificationConfig !== null) {
        throw refuse("pushNotSupported", "Push notifications are not supported");
      }
      for (const part of parts) {
        const has = (name: string) => (part[name] ?? "") !== "";
        if (["raw", "url", "file"].some(has)) {
          throw refuse("contentType", "Only text and data parts are accepted, no files");
        }
        // A part with both is refused, because only one of them would be sent.
        const isOne = part.text === undefined ? Object.hasOwn(part, "data") : !has("data");
        if (!isOne) throw refuse("params", "Invalid params: a part has neither text nor data, or has both");
      }
      const payload = payloadOf(parts, text);
      if (payload === null) throw refuse("params", "Invalid params: the message is blank");
      const bytes = utf8Bytes(payload).length;
      if (bytes > LIMITS.payloadBytes) {
        throw refuse("params", `The message has ${bytes} bytes, and at most ${LIMITS.payloadBytes} are sent`);
      }
      const message = { messageId, contextId, taskId, payload, returnImmediately: returnImmediately ?? false };
      return { method, id, message };
    }
    case "ListTasks":
      return { method, id, query: checked(ListParams) };
    case "GetTask":
    case "CancelTask":
      return { method, id, taskId: checked(TaskParams).id };
  }
  const code = Object.hasOwn(NOT_SERVED, method) ? NOT_SERVED[method] : undefined;
  throw code === undefined ? refuse("method", "There is no such method") : refuse(code, "This is not supported");
}

function envelopeOf(text: string): Omit<z.output<typeof Envelope>, "id"> & { id: RpcId } {
  const value = parseOrThrow(text, () => new RpcError("parse", "The body is not JSON"));
  const { success, data } = Envelope.safeParse(value);
  const id = memberText(text, "id") ?? "null";
  if (success) return { ...data, id };
  const isId = Envelope.shape.id.safeParse((value as { id?: unknown } | null)?.id).success;
  const message = Array.isArray(value) ? "Batches are not served" : "The body is not a JSON-RPC 2.0 request with an id";
  throw new RpcError("request", message, isId ? id : "null");
}

/**
 * Returns the payload: a single data object unchanged, else a text with a line for each part; `null` for a blank text.
 */
function payloadOf(parts: readonly Part[], text: string): string | null {
  const within = (json: string, name: string) => memberText(json, name) ?? "null";
  const written = arrayElements(within(within(within(text, "params"), "message"), "parts"));
  const lines = parts.map((part, i) => part.text ?? within(written[i] ?? "", "data"));
  const [only] = parts;
  const isObject = lines[0]?.startsWith("{") ?? false;
  if (parts.length === 1 && only?.text === undefined && isObject) return lines[0] ?? null;
  const message = lines.join("\n");
  return message.trim() === "" ? null : JSON.stringify({ message });
}
