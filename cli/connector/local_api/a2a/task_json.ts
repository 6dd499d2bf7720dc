/** Sent messages as tasks of A2A (D-135): the state that a message and its reply show, and the JSON text. Pure. */
import * as z from "zod";
import { withoutIdentityBlock } from "../../../../shared/protocol/identity_block.ts";
import { topLevelMembers } from "../../../../shared/protocol/json_text.ts";
import { toIso } from "../../../../shared/protocol/time.ts";
import type { TaskState } from "../../../a2a/protocol.ts";
import type { InboxMessage } from "../../delivery/inbox_rows.ts";
import type { SentMessage } from "../../delivery/sent_messages.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../../limits.ts";

const STATES: Readonly<Record<SentMessage["state"], TaskState>> = {
  sending: "TASK_STATE_WORKING",
  queued: "TASK_STATE_SUBMITTED",
  delivered: "TASK_STATE_WORKING",
  processed: "TASK_STATE_WORKING",
  dead_lettered: "TASK_STATE_FAILED",
  unknown: "TASK_STATE_FAILED",
  refused: "TASK_STATE_REJECTED",
};
const OPEN: ReadonlySet<TaskState> = new Set(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"]);

/** The error in the reply of an agent that has no result (D-134). */
const ReplyError = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

/** A task. */
export interface TaskView {
  state: TaskState;
  /** Why there is no result; `null` for another state. */
  why: string | null;
  reply: InboxMessage | null;
}

/** Whether the task has no result yet. */
export function isOpen({ state }: TaskView): boolean {
  return OPEN.has(state);
}

export function viewOf(sent: SentMessage, reply: InboxMessage | null, now: number): TaskView {
  if (reply !== null) {
    const why = errorIn(reply.payload);
    return { state: why === null ? "TASK_STATE_COMPLETED" : "TASK_STATE_FAILED", why, reply };
  }
  const state = STATES[sent.state];
  if (!OPEN.has(state)) {
    return { state, why: sent.problem ?? "The agent's connector gave up on the message", reply };
  }
  if (now - sent.sentAt < LIMIT.a2aTaskMs) return { state, why: null, reply };
  return { state: "TASK_STATE_FAILED", why: "The agent has not replied within 24 hours", reply };
}

/** The JSON text of a task. */
export function taskJson(sent: SentMessage, { state, why, reply }: TaskView): string {
  const contextId = sent.conversationId ?? sent.requestId;
  const message = why === null
    ? {}
    : { message: { messageId: `${sent.requestId}.status`, contextId, role: "ROLE_AGENT", parts: [{ text: why }] } };
  const timestamp = toIso(reply?.receivedAt ?? sent.stateAt);
  const head = JSON.stringify({ id: sent.requestId, contextId, status: { state, timestamp, ...message }, history: [] });
  const parts = reply === null || why !== null || reply.payload === "" ? "" : partsJson(reply);
  const id = JSON.stringify(reply?.requestId ?? "");
  const artifacts = parts === "" ? "[]" : `[{"artifactId":${id},"name":"reply","parts":[${parts}]}]`;
  return `${head.slice(0, -1)},"artifacts":${artifacts}}`;
}

/** The parts of a reply: its text without the identity block, and the payload when it has more than that. */
function partsJson({ payload, identity }: InboxMessage): string {
  const members = topLevelMembers(payload);
  const member = members.findLast(({ key }) => key === "message");
  const data = `{"data":${payload}}`;
  if (member === undefined || payload[member.start] !== '"') return data;
  const text = withoutIdentityBlock(JSON.parse(payload.slice(member.start, member.end)) as string, identity);
  const json = JSON.stringify({ text });
  return members.every(({ key }) => key === "message") ? json : `${json},${data}`;
}

function errorIn(payload: string): string | null {
  const member = topLevelMembers(payload).findLast(({ key }) => key === "error");
  if (member === undefined) return null;
  const { data } = ReplyError.safeParse({ error: JSON.parse(payload.slice(member.start, member.end)) as unknown });
  return data === undefined ? null : `${data.error.code}: ${data.error.message}`;
}
