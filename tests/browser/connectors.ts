/** A server, and connectors of agents of one person as processes, with their pages in a browser. */
import type { Page } from "playwright-core";
import { createAgents, RunningConnector } from "../cli/connector/people.ts";
import { Service, tempFolder } from "../support/process.ts";
import { TestBrowser, type Watched } from "./browser.ts";
import { SERVED } from "./served_world.ts";

/** Names of the persons whom agents name when they pair. */
const PEOPLE: Readonly<Record<string, string>> = { alpha: "Ada Ovelace", beta: "Bob Tables", gamma: "Charlotte" };

export class Connectors implements AsyncDisposable {
  readonly #owned = new AsyncDisposableStack();
  readonly running = new Map<string, RunningConnector>();
  dir = "";
  service!: Service;
  browser!: TestBrowser;

  /** @param agents their names; each connector reads its messages */
  static async open(agents: readonly string[]): Promise<Connectors> {
    const world = new Connectors();
    try {
      world.service = world.#owned.use(await Service.here());
      const { path } = world.#owned.use(await tempFolder());
      world.dir = path;
      await createAgents(path, world.service, agents);
      await Promise.all(agents.map((name) => world.start(name)));
      world.browser = world.#owned.use(await TestBrowser.start(SERVED));
      return world;
    } catch (error) {
      await world[Symbol.asyncDispose]();
      throw error;
    }
  }

  async start(agent: string, args: readonly string[] = ["--inbox"]): Promise<void> {
    const env = { SVC_HUMAN_NAME: PEOPLE[agent] ?? "Ada" };
    this.running.set(agent, await RunningConnector.start(this.dir, agent, args, { env }));
  }

  /** Sends a request to the local API of an agent. */
  async call(agent: string, path: string, body?: unknown): Promise<unknown> {
    const { url, token } = this.running.get(agent)!.file;
    const response = await fetch(url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { Authorization: `Bearer ${token}` },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  async pair(initiator: string, responder: string): Promise<void> {
    const { ticket } = await this.call(initiator, "/v1/pair/start", {}) as { ticket: string };
    await this.call(responder, "/v1/pair/confirm", { ticket });
  }

  /** An address that opens the page of an agent once. */
  async address(agent: string): Promise<string> {
    return (await this.call(agent, "/v1/page-codes", {}) as { url: string }).url;
  }

  /** Opens the page of an agent. */
  async page(agent: string, options?: Parameters<TestBrowser["open"]>[0]): Promise<Watched & { base: string }> {
    const watched = await this.browser.open(options);
    await watched.page.goto(await this.address(agent));
    if (options?.javaScriptEnabled === false) await watched.page.click("button.btn");
    await watched.page.waitForURL(/\/inbox$/);
    return { ...watched, base: watched.page.url().replace(/\/inbox$/, "") };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const connector of this.running.values()) await connector[Symbol.asyncDispose]();
    await this.#owned.disposeAsync();
  }
}

/** The text of each element that fits, once there is one, because the page of the last click may still be on its way. */
export async function texts(page: Page, selector: string): Promise<string[]> {
  await page.locator(selector).first().waitFor({ state: "attached" });
  return await page.locator(selector).allTextContents();
}
