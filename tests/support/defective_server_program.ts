/**
 * The server with two defects: a promise that no code handles is rejected at its start, and after SIGUSR2 a timer throws
 * an exception.
 */
import { runServer } from "../../deploy.ts";

const SECRET = `svc_pat_${"A".repeat(43)}`;

const { address } = await runServer((name) => Deno.env.get(name) || undefined);
void Promise.reject(new Error(`the promise held ${SECRET}`));
Deno.addSignalListener("SIGUSR2", () => {
  setTimeout(() => {
    throw new Error(`the timer held ${SECRET}`);
  });
});
console.log(`listening on ${address}`);
