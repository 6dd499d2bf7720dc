/** How long a tool may wait, and the notifications that let it wait longer. */
import type { ServerContext } from "@modelcontextprotocol/server";
import { type Clock, repeat } from "../../shared/clock.ts";

/** With more, programs that run a model end the call, and the model sees an error and no answer. */
export const WAIT_SECONDS = 45;
/** Longest wait of a call with a progress token, whose client may extend its time. With more, a turn seems to hang. */
export const LONG_WAIT_SECONDS = 600;
/** With more, a model without a message waits for longer than it needs; with less, it asks more often. */
export const WAIT_DEFAULT_SECONDS = 30;
/** With more, a client whose time-out is short ends the call between two notifications. */
const PROGRESS_MS = 5_000;

type McpRequest = Pick<ServerContext["mcpReq"], "_meta" | "notify" | "signal">;

/**
 * Returns the longest wait of a tool in seconds. It is short without a progress token, because a client that gets no
 * notifications would cut off a longer call.
 */
export function longestWait({ _meta }: McpRequest): number {
  return _meta?.progressToken === undefined ? WAIT_SECONDS : LONG_WAIT_SECONDS;
}

/**
 * Tells the client every 5 s that a call with a progress token is alive. A client that resets its time-out at each
 * notification waits longer than the 60 s after which most clients give up. The notifications end on disposal, because
 * one that follows the answer would name a call that the client no longer knows.
 */
export function reportProgress(clock: Clock, { _meta, notify, signal }: McpRequest): Disposable {
  const progressToken = _meta?.progressToken;
  if (progressToken === undefined) return { [Symbol.dispose]: () => {} };
  let progress = 0;
  const end = repeat(clock, () => PROGRESS_MS, async () => {
    progress += PROGRESS_MS / 1000;
    const params = { progressToken, progress, message: `Waiting for ${progress} s` };
    await notify({ method: "notifications/progress", params }).catch(() => {});
  });
  signal.addEventListener("abort", end);
  return { [Symbol.dispose]: end };
}
