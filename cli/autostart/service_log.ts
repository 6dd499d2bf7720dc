/** Bounds the log of a service under launchd, which, unlike the journal of systemd, keeps all that it gets. */
import type { Cancel } from "../../shared/clock.ts";
import type { Context } from "../context.ts";

/** Largest log of a service under launchd, which would otherwise fill the disk, in bytes. It is looked at each hour. */
const LOG_BYTES = 16 * 1024 * 1024, LOG_LOOK_MS = 3_600_000;

/** Empties the log of a service under launchd when it is too large, now and later. Returns what ends that. */
export function boundLog({ clock, env }: Pick<Context, "clock" | "env">): Cancel {
  const path = env("SVC_SERVICE_LOG");
  if (path === undefined) return () => {};
  let cancel: Cancel = () => {};
  const look = () => {
    // A log that cannot be emptied must not end the connector that it is about.
    void Deno.stat(path).then(({ size }) => size > LOG_BYTES ? Deno.truncate(path) : undefined).catch(() => {});
    cancel = clock.after(LOG_LOOK_MS, look);
  };
  look();
  return () => cancel();
}
