/** Measures the times that `/health` of a server takes under load. */

export class HealthPoller implements Disposable {
  readonly #worker = new Worker(new URL("./health_worker.ts", import.meta.url), { type: "module" });

  /** @param pid of the server, where its waits for a core do not count */
  constructor(url: string, pid?: number) {
    this.#worker.postMessage({ url, pid });
  }

  /** Milliseconds of each poll since the last call. */
  take(): Promise<number[]> {
    return new Promise((resolve) => {
      this.#worker.onmessage = ({ data }: MessageEvent<number[]>) => resolve(data);
      this.#worker.postMessage("take");
    });
  }

  [Symbol.dispose](): void {
    this.#worker.terminate();
  }
}

/** The median. */
export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
