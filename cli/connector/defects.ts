/**
 * Reports unhandled rejections as events. The HTTP client of Deno 2.7 causes one when a response breaks off, which
 * would end the connector. A thrown exception still ends it.
 */
import type { EmitEvent } from "./events.ts";
import { describeError } from "../../shared/client/refusals.ts";

/** Reports unhandled rejections from now on. Returns a function that stops it. */
export function reportDefects(emit: EmitEvent): () => void {
  const report = (event: PromiseRejectionEvent) => {
    event.preventDefault();
    emit("defect", { why: describeError(event.reason) });
  };
  globalThis.addEventListener("unhandledrejection", report);
  return () => globalThis.removeEventListener("unhandledrejection", report);
}
