/** What `svc serve` prints once it listens (D-161): addresses, store, process, and how to become the admin. */
import { isLoopback } from "../../shared/client/service_url.ts";
import type { Context } from "../context.ts";
import { fields } from "../terminal/output.ts";
import type { ServePlan } from "./serve_plan.ts";

export interface Announcement extends ServePlan {
  /** The address it listens on. */
  address: string;
  /** The address of the metrics; `null` when they are not served. */
  metricsAddress: string | null;
  /** True until the first admin exists. */
  isOpen: boolean;
}

/** Prints the announcement: with `--json` one line, else several and then the warnings. */
export function announce(ctx: Pick<Context, "out" | "pid">, server: Announcement): void {
  const { out, pid } = ctx;
  const { address, metricsAddress, isOpen, madeSecret, store, warnings } = server;
  const publicUrl = server.publicUrl ?? `http://127.0.0.1:${portOf(address)}`;
  const bootstrapSecret = isOpen ? madeSecret : null;
  if (out.json) {
    for (const warning of warnings) out.warn(warning);
    const shown = { listening: address, publicUrl, store, pid, ...bootstrapSecret === null ? {} : { bootstrapSecret } };
    out.jsonLine(JSON.stringify(shown));
    return;
  }
  out.result({}, [
    `listening on ${address}`,
    ...fields([["public", publicUrl], ["store", store], ["pid", pid]]),
    ...metricsAddress === null ? [] : fields([["metrics", `${metricsAddress}/metrics`]]),
    ...isOpen && store !== ":memory:" ? [`Every identity will name ${publicUrl}. It cannot be changed.`] : [],
    ...isOpen ? nextLines(out, server) : [],
  ]);
  for (const warning of warnings) out.warn(warning);
}

function nextLines(out: Context["out"], { address, madeSecret, hasSecret }: Announcement): string[] {
  if (madeSecret === null && !hasSecret) {
    return ["", "There is no admin yet. To create one, set BOOTSTRAP_SECRET and start again."];
  }
  const url = reachable(address);
  const insecure = isLoopback(url) ? [] : ["--allow-insecure"];
  // A secret may begin with a dash, so it follows an equals sign. A configured one is not printed.
  const words = ["admin", "bootstrap", `--bootstrap-secret=${madeSecret ?? "-"}`, "--registry-url", url, ...insecure];
  const how = madeSecret === null ? " (type your BOOTSTRAP_SECRET, Enter, Ctrl-D)" : "";
  return ["", `Next, in another terminal, make yourself the admin${how}:`, "", `  ${out.commandLine(words)}`, ""];
}

/** Returns the port, also when it is the usual one. */
function portOf(address: string): string {
  return address.slice(address.lastIndexOf(":") + 1);
}

/** Returns an address of this machine for a server that listens on all of them. */
function reachable(address: string): string {
  const url = new URL(address);
  return ["0.0.0.0", "[::]"].includes(url.hostname) ? `http://127.0.0.1:${url.port}` : url.origin;
}
