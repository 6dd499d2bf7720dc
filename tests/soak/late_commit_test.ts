/** A real server whose denokv answers every read and never a commit: its messages are 503 while their senders still wait. */
import { assert, assertEquals } from "@std/assert";
import { accessToken, Denokv, findDenokv } from "../support/denokv.ts";
import { eventually, type LiveAgent, messageTo, pair, Service } from "../support/process.ts";
import { ApiError } from "../support/agent_client.ts";

const denokv = await findDenokv();

const MESSAGES = 12;
const ANSWERED_MS = 15_000;
/** The path of a commit in the protocol of KV Connect ends with this. */
const COMMIT = "/atomic_write";

/** Passes requests on to a denokv, and keeps its commits while `holds` is true. */
class CommitHolder implements AsyncDisposable {
  holds = false;
  readonly #http: Deno.HttpServer<Deno.NetAddr>;
  readonly #released = Promise.withResolvers<void>();

  constructor(address: string) {
    this.#http = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
      const { pathname } = new URL(request.url);
      const { method, headers } = request;
      const body = method === "POST" ? await request.bytes() : null;
      if (this.holds && pathname.endsWith(COMMIT)) await this.#released.promise;
      return await fetch(address + pathname, { method, headers, body });
    });
  }

  get address(): string {
    return `http://127.0.0.1:${this.#http.addr.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#released.resolve();
    await this.#http.shutdown();
  }
}

Deno.test({
  name:
    "12 messages of one sender and 12 of twelve are 503 within 15 s while denokv commits nothing, and 202 afterwards",
  ignore: denokv === null,
  async fn(t) {
    await using store = await Denokv.start(denokv ?? "");
    await using holder = new CommitHolder(store.address);
    await using service = await Service.open({ KV_URL: holder.address, DENO_KV_ACCESS_TOKEN: accessToken() });
    const b = await service.agent("b");
    const senders: LiveAgent[] = [];
    for (let i = 0; i < MESSAGES; i++) {
      const sender = await service.agent(`a${i}`);
      await pair(sender, b);
      senders.push(sender);
    }
    const connector = await service.connect(b);
    const send = (sender: LiveAgent) => sender.client.sendMessage(messageTo(b));
    for (const sender of senders) assertEquals((await send(sender)).delivered, true);
    for (const count of [1, MESSAGES]) {
      await t.step(`${count} senders`, async () => {
        holder.holds = true;
        const times = await Promise.all(Array.from({ length: MESSAGES }, async (_, i) => {
          const began = performance.now();
          const error = await send(senders[i % count] as LiveAgent).then(() => null, (error) => error);
          assert(error instanceof ApiError && error.status === 503, String(error));
          return performance.now() - began;
        }));
        console.log(`${count} senders: slowest ${(Math.max(...times) / 1000).toFixed(1)} s`);
        assert(Math.max(...times) < ANSWERED_MS, times.join());
        holder.holds = false;
        await eventually(
          30_000,
          "a message is delivered",
          () => send(senders[0] as LiveAgent).then(({ delivered }) => delivered, () => undefined),
        );
      });
    }
    await connector.close();
  },
});
