/**
 * Rejections that no code handles (D-248): the platform's own HTTP client rejects one when an answer breaks off (Deno
 * 2.7), which would end the connector. They are reported as events; an exception that is thrown still ends it.
 */
import type { EmitEvent } from "./events.ts";
import { describeError } from "./link/refusals.ts";

/** Reports unhandled rejections from now on. Returns what ends that. */
export function reportDefects(tell: EmitEvent): () => void {
  const report = (event: PromiseRejectionEvent) => {
    event.preventDefault();
    tell("defect", { why: describeError(event.reason) });
  };
  globalThis.addEventListener("unhandledrejection", report);
  return () => globalThis.removeEventListener("unhandledrejection", report);
}
