/** Failures that no code of a connector handles. */
import { describeError } from "../../shared/client/refusals.ts";
import { withoutSecrets } from "../../shared/redaction.ts";
import { CliError, describe } from "../errors.ts";
import type { EmitEvent } from "./events.ts";

/**
 * Reports unhandled rejections from now on, because the HTTP client of Deno causes one when a response breaks off,
 * which would end the connector. `exception` rejects when code throws what no code handles, so that the connector ends:
 * its work stopped halfway. Without the listener, Deno would end it with any secret in its text, and leave the terminal
 * as it is.
 */
export function reportDefects(emit: EmitEvent): { exception: Promise<never>; end(): void } {
  const thrown = Promise.withResolvers<never>();
  // A later exception must not count as a rejection that nothing handles.
  thrown.promise.catch(() => {});
  const report = (event: PromiseRejectionEvent) => {
    event.preventDefault();
    emit("defect", { why: withoutSecrets(describeError(event.reason)) });
  };
  const fail = (event: ErrorEvent) => {
    event.preventDefault();
    const { error } = event;
    const fix = "Start the connector again, and please report it.";
    // Without the place in the code, a report would not say where the defect is.
    const place = error instanceof Error && error.stack?.split("\n").find((line) => line.startsWith("    at "));
    const details = place ? [withoutSecrets(place.trim())] : [];
    thrown.reject(new CliError("CLI_UNEXPECTED", describe(error).cause, { fix, details, cause: error }));
  };
  globalThis.addEventListener("unhandledrejection", report);
  globalThis.addEventListener("error", fail);
  return {
    exception: thrown.promise,
    end() {
      globalThis.removeEventListener("unhandledrejection", report);
      globalThis.removeEventListener("error", fail);
    },
  };
}
