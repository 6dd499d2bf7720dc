/**
 * Polls `/health` on its own thread, so that the work of the test delays no measurement. Started with a URL and the
 * process that answers there. Answers `"take"` with the times since the last request, in milliseconds.
 */
import { stopwatch } from "./process_figures.ts";

declare const self: {
  onmessage: ((event: MessageEvent<"take" | { url: string; pid: number | undefined }>) => void) | null;
  postMessage(message: unknown): void;
};

let times: number[] = [];
/** The time of the present poll so far. */
let passed = () => 0;

async function poll(url: string, pid: number | undefined): Promise<never> {
  while (true) {
    passed = stopwatch(pid);
    const response = await fetch(`${url}/health`);
    await response.body?.cancel();
    times.push(passed());
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

self.onmessage = ({ data }) => {
  if (data !== "take") return void poll(data.url, data.pid);
  // A poll without an answer counts with its time so far.
  self.postMessage([...times, passed()]);
  times = [];
};
