/**
 * Gives the tests of a run one empty denokv for each store that they open. The run's process starts the servers, so
 * that a test's own resources stay the same as with a store in memory. Each answer has the address and the pid: a test
 * ends the server itself, the run ends the rest.
 */
import { accessToken, Denokv } from "../support/denokv.ts";
import { DATABASES } from "../support/test_store.ts";

/** Serves databases until it is disposed of. */
export class Databases implements AsyncDisposable {
  /** Number of databases that tests have taken. */
  taken = 0;
  readonly #program: string;
  readonly #servers: Denokv[] = [];
  readonly #http: Deno.HttpServer<Deno.NetAddr>;
  /** The next database starts before a test asks for it. */
  #next: Promise<Denokv>;

  constructor(program: string) {
    this.#program = program;
    this.#next = this.#start();
    this.#http = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async () => {
      const next = this.#next;
      this.#next = this.#start();
      this.taken++;
      const { address, pid } = await next;
      return Response.json({ address, pid });
    });
  }

  /** Variables for the process of the tests. */
  get variables(): Record<string, string> {
    return { [DATABASES]: `http://127.0.0.1:${this.#http.addr.port}`, DENO_KV_ACCESS_TOKEN: accessToken() };
  }

  async #start(): Promise<Denokv> {
    const server = await Denokv.start(this.#program);
    this.#servers.push(server);
    return server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#http.shutdown();
    await this.#next;
    for (const server of this.#servers) await server[Symbol.asyncDispose]();
  }
}
