/**
 * Polls `/health` on its own thread, so that the work of the test delays no measurement. Started with a URL. Answers
 * `"take"` with the times since the last request, in milliseconds.
 */
declare const self: {
  onmessage: ((event: MessageEvent<string>) => void) | null;
  postMessage(message: unknown): void;
};

let times: number[] = [];
/** Start of the present poll. */
let began = 0;

async function poll(url: string): Promise<never> {
  while (true) {
    began = performance.now();
    const response = await fetch(`${url}/health`);
    await response.body?.cancel();
    times.push(performance.now() - began);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

self.onmessage = ({ data }) => {
  if (data !== "take") return void poll(data);
  // A poll without an answer counts with its time so far.
  self.postMessage([...times, performance.now() - began]);
  times = [];
};
