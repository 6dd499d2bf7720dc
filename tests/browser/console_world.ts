/** The console of a registry in a browser, with people, agents and messages whose names attack the page. */
import { REGISTRY_URL, type TestAgent, type World, type WorldOptions } from "../support/world.ts";
import { answered } from "../support/registry_world.ts";
import type { TestBrowser, Watched } from "./browser.ts";
import { ServedWorld } from "./served_world.ts";

export const HOSTILE_NAMES = [
  "<script>alert(1)</script>",
  `"><img src=x onerror=alert(2)>`,
  "</bdi></table><svg onload=alert(3)>",
  "' onmouseover='alert(4)",
];

export class ConsoleWorld implements AsyncDisposable {
  private constructor(readonly served: ServedWorld) {}

  static async open(options: WorldOptions = {}): Promise<ConsoleWorld> {
    return new ConsoleWorld(await ServedWorld.open({ ...options, registry: { console: true, ...options.registry } }));
  }

  get world(): World {
    return this.served.world;
  }

  /** An address that opens the console once. */
  async address(apiKey?: string): Promise<string> {
    const key = apiKey ?? (await this.world.admin()).apiKey;
    const answer = await this.world.ask("POST", "/v1/admin/console-codes", { apiKey: key });
    return (await answered<{ url: string }>(answer, 201)).url;
  }

  /** Opens the console. */
  async page(options?: Parameters<TestBrowser["open"]>[0]): Promise<Watched & { base: string }> {
    const watched = await this.served.browser.open(options);
    await watched.page.goto(await this.address());
    if (options?.javaScriptEnabled === false) await watched.page.click("button.btn");
    await watched.page.waitForURL(/\/overview$/);
    return { ...watched, base: watched.page.url().replace(/\/overview$/, "") };
  }

  /** People with hostile names, agents that are connected, away and revoked, messages that pass, wait and are refused. */
  async populate(): Promise<{ alpha: TestAgent; beta: TestAgent; gone: TestAgent; waitingId: string }> {
    const w = this.world;
    const ada = await w.person("Ada Ovelace");
    const others = await Promise.all([...HOSTILE_NAMES, "مريم الراشد", "李小龙"].map((name) => w.person(name)));
    const alpha = await w.agent(ada, "alpha"), beta = await w.agent(others[0], "beta");
    const gone = await w.agent(others[1], "release-notes-writer-for-the-platform-team-and-all-others");
    await w.pair(alpha, beta);
    w.connect(alpha);
    w.connect(beta);
    await w.connected();
    for (let i = 0; i < 5; i++) await w.message(alpha, beta);
    const away = await w.agent(others[2], "archive-bot");
    await w.pair(alpha, away);
    const waitingId = "request-that-waits";
    await w.message(alpha, away, { headers: { Prefer: "respond-async", "x-request-id": waitingId } });
    // Not paired.
    for (let i = 0; i < 3; i++) await w.message(beta, away, { headers: { "x-request-id": `refused-${i}-of-beta` } });
    await w.client.deleteAgent(gone.owner.apiKey, gone.agent.id);
    await w.proxy.deps.series.take();
    return { alpha, beta, gone, waitingId };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.served[Symbol.asyncDispose]();
  }
}

export { REGISTRY_URL };
