/** A proxy that records the first line of each request and answers 502. */
export class RecordingProxy implements AsyncDisposable {
  readonly seen: string[] = [];
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #accepting = this.#accept();

  /** Variables with which programs send their requests here. */
  get env(): Record<string, string> {
    const url = `http://127.0.0.1:${(this.#listener.addr as Deno.NetAddr).port}`;
    const names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    const all = [...names, ...names.map((name) => name.toLowerCase())].map((name) => [name, url]);
    return Object.fromEntries(all);
  }

  async #accept(): Promise<void> {
    for await (const connection of this.#listener) {
      const head = new Uint8Array(4096);
      const length = await connection.read(head) ?? 0;
      this.seen.push(new TextDecoder().decode(head.subarray(0, length)).split("\r\n")[0] ?? "");
      await connection.write(new TextEncoder().encode("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"));
      connection.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await this.#accepting;
  }
}
