/** The services for `deno serve --parallel`: isolates of one process that share a store. Composed as `deploy.ts` does. */
import { openServices } from "../../deploy.ts";
import { processEnviron } from "../../shared/server/config_reader.ts";
import { systemClock } from "../../shared/clock.ts";
import { jsonLog } from "../../shared/server/log.ts";

export default {
  fetch: await openServices(processEnviron, jsonLog(systemClock, "svc", (line) => console.error(line))),
} satisfies Deno.ServeDefaultExport;
