/**
 * Polls `/health` on a thread of its own, so that what the test itself does delays no measurement. Started with a URL,
 * then asked with `"take"` for the times since the last question, in milliseconds.
 */
declare const self: {
  onmessage: ((event: MessageEvent<string>) => void) | null;
  postMessage(message: unknown): void;
};

let times: number[] = [];
/** Start of the poll under way. */
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
  // A poll that is not answered yet counts with its time so far.
  self.postMessage([...times, performance.now() - began]);
  times = [];
};
