/**
 * The error in a reply: an agent that has no answer says why, and no program takes the reason for an answer. It is
 * the member `svcError` of the payload and not of the frame, so what proves the payload proves the error too.
 */
import * as z from "zod";
import { topLevelMembers } from "../protocol/json_text.ts";

/** Member of the payload. */
const MEMBER = "svcError";
/** Characters of the message of an error; the whole text is the message of the payload. */
const MAX_MESSAGE_CHARS = 512;

/** Why an agent has no answer. `code` is the agent's own, for example `TASK_FAILED`. */
export const ReplyError = z.object({
  code: z.string().regex(/^[A-Z][A-Z0-9_]{0,63}$/, "must be 1 to 64 of A-Z, 0-9 and '_', beginning with a letter"),
  message: z.string(),
});
export type ReplyError = z.infer<typeof ReplyError>;

/** The error of an agent that answers too often without a person or a model between. */
export const BUSY = "BUSY";

/** The payload of a reply without an answer. Its `message` is what people and runtimes read. */
export function errorPayload(message: string, { code, message: why }: ReplyError): Record<string, unknown> {
  return { message, [MEMBER]: { code, message: why.slice(0, MAX_MESSAGE_CHARS).toWellFormed() } };
}

/** The error in the payload of a reply, as JSON text; `null` when it is an answer. */
export function errorIn(payload: string): ReplyError | null {
  const member = topLevelMembers(payload).findLast(({ key }) => key === MEMBER);
  if (member === undefined) return null;
  const { data } = ReplyError.safeParse(JSON.parse(payload.slice(member.start, member.end)) as unknown);
  return data === undefined ? null : { ...data, message: data.message.slice(0, MAX_MESSAGE_CHARS).toWellFormed() };
}

/** Whether a member of a payload is the error of the reply. */
export function isErrorMember(name: string): boolean {
  return name === MEMBER;
}
