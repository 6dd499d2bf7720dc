/** The payload of the reply that ends a task (D-134): a text, or why there is none. Pure. */
import { CLIENT_LIMITS } from "../../../shared/client/limits.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import type { TaskCode } from "../../platforms/platform.ts";

/** Texts for tasks whose runtime says nothing. */
const WITHOUT_RESULT: Readonly<Record<TaskCode, string>> = {
  TASK_FAILED: "The agent could not complete the task",
  TASK_REJECTED: "The agent did not accept the task",
  TASK_CANCELED: "The task was canceled",
  TASK_LOST: "The agent has lost the task",
};

const CUT_MARK = "\n[cut: the answer is longer]";
/** Characters of the message of an error; the whole text is the message of the payload. */
const MAX_ERROR_CHARS = 512;

/**
 * Returns the payload as JSON text, cut with a mark to what is sent.
 *
 * @param code why there is no result; `null`: `text` is the result, or the question of the task
 * @returns `null` for a blank result
 */
export function taskPayload(text: string, code: TaskCode | null): string | null {
  const isBlank = text.trim() === "";
  if (code === null) return isBlank ? null : fitting(text, (message) => ({ message }));
  const said = isBlank ? WITHOUT_RESULT[code] : text;
  const error = { code, message: said.slice(0, MAX_ERROR_CHARS).toWellFormed() };
  return fitting(said, (message) => ({ message, error }));
}

/** The object with as much of the text as fits. */
function fitting(text: string, object: (text: string) => object): string {
  const json = (length: number) =>
    JSON.stringify(object(length === text.length ? text : text.slice(0, length).toWellFormed() + CUT_MARK));
  const fits = (length: number) => utf8Bytes(json(length)).length <= CLIENT_LIMITS.payloadBytes;
  if (fits(text.length)) return json(text.length);
  let low = 0, high = text.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle - 1;
  }
  return json(low);
}
