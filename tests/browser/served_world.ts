/** Both services behind TLS on one port of this machine, under their public names, for a browser. */
import { PrivateAuthority } from "../support/private_authority.ts";
import { freePort, tempFolder } from "../support/process.ts";
import { PROXY_URL, REGISTRY_URL, World, type WorldOptions } from "../support/world.ts";
import { TestBrowser } from "./browser.ts";

/** One for all worlds of an isolate, so that they share a browser that knows it. */
const PORT = freePort();
const HOSTS = [REGISTRY_URL, PROXY_URL].map((url) => new URL(url).host);
/** The ports of these names. */
export const SERVED = Object.fromEntries(HOSTS.map((host) => [host, PORT]));

export class ServedWorld implements AsyncDisposable {
  private constructor(
    readonly world: World,
    readonly browser: TestBrowser,
    readonly server: Deno.HttpServer<Deno.NetAddr>,
  ) {}

  static async open(options: WorldOptions = {}): Promise<ServedWorld> {
    await using folder = await tempFolder();
    const authority = await PrivateAuthority.make(folder.path);
    const certificate = await authority.issue("served", HOSTS.map((host) => `DNS:${host}`).join(","));
    const world = await World.open(options);
    const server = Deno.serve(
      { port: PORT, hostname: "127.0.0.1", onListen() {}, ...certificate },
      (request, info) => {
        const service = new URL(request.url).origin === PROXY_URL ? world.proxy : world.registry;
        return service.fetch(request, { from: "socket", address: info.remoteAddr.hostname });
      },
    );
    const browser = await TestBrowser.start(SERVED);
    return new ServedWorld(world, browser, server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.browser[Symbol.asyncDispose]();
    await this.server.shutdown();
    await this.world[Symbol.asyncDispose]();
  }
}
