/** The command with a defect: after SIGUSR2 a timer throws an exception. */
import { main } from "../../cli/main.ts";

Deno.addSignalListener("SIGUSR2", () => {
  setTimeout(() => {
    throw new Error(`the timer held svc_rft_${"A".repeat(43)}`);
  });
});
await main(null);
