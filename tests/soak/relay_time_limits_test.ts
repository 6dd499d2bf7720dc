/**
 * What the relay ends by its time limits (D-67, D-70): a connection that is silent, and waits for a registry that stands
 * still.
 */
import { assert, assertEquals } from "@std/assert";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { RegistryClient } from "../support/agent_client.ts";
import { connectedSockets, outcome } from "../e2e/harness.ts";
import {
  BOOTSTRAP_SECRET,
  Connector,
  deps,
  eventually,
  messageTo,
  newAgent,
  pair,
  Service,
  startServer,
  tempFolder,
  within,
} from "../support/process.ts";
import { BareConnector, CONNECT, RawSocket, upgradeLines } from "../support/raw_http.ts";

/** A connection to a server that can be silenced: no data and no end passes in either direction. */
class BlackHole implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #conns: Deno.TcpConn[] = [];
  readonly #copies: Promise<void>[] = [];
  swallows = false;

  constructor(target: string) {
    const { hostname, port } = new URL(target);
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#copies.push(this.#accept(hostname, Number(port)));
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listener.addr.port}`;
  }

  async #accept(hostname: string, port: number): Promise<void> {
    for await (const near of this.#listener) {
      const far = await Deno.connect({ hostname, port });
      this.#conns.push(near, far);
      this.#copies.push(this.#copy(near, far), this.#copy(far, near));
    }
  }

  async #copy(from: Deno.TcpConn, to: Deno.TcpConn): Promise<void> {
    const chunk = new Uint8Array(65_536);
    try {
      for (let size = await from.read(chunk); size !== null; size = await from.read(chunk)) {
        for (let sent = 0; !this.swallows && sent < size;) sent += await to.write(chunk.subarray(sent, size));
      }
      if (!this.swallows) to.close();
    } catch {
      // Closed at the end of the test, or by the other side.
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const conn of this.#conns) {
      try {
        conn.close();
      } catch {
        // It is already closed.
      }
    }
    await Promise.all(this.#copies);
  }
}

async function vanishing(): Promise<void> {
  await using service = await Service.open({ RELAY_ACK_TIMEOUT_MS: "1000", RELAY_HEARTBEAT_INTERVAL_MS: "1000" });
  const { a, b } = await service.agents();
  await using way = new BlackHole(service.url);
  const socket = await RawSocket.open(way.url, CONNECT, await upgradeLines(service.url, b));
  assert(socket instanceof RawSocket);
  await using bare = new BareConnector(socket);
  await bare.say({ type: "heartbeat_ack", ackId: (await bare.frame("heartbeat")).id });
  way.swallows = true;
  const began = performance.now();
  assertEquals(await outcome(a.client.sendMessage(messageTo(b))), "502 PROXY_RELAY_DELIVERY_FAILED");
  assert(performance.now() - began < LIMITS.ackTimeoutMs, "within the ack timeout, not its default");
  await eventually(90_000, "the socket is gone", async () => await connectedSockets(service.url) === 0 || undefined);
  assertEquals(await outcome(a.client.sendMessage(messageTo(b))), "502 PROXY_RELAY_CONNECTOR_OFFLINE");
}

async function standingStill(): Promise<void> {
  await using folder = await tempFolder();
  await using folderOfProxy = await tempFolder();
  // A connection to the registry that counts the proxy's requests.
  let asked = 0;
  let address = "";
  const passOn = async (request: Request): Promise<Response> => {
    asked++;
    const { method, headers } = request;
    const body = method === "GET" ? null : await request.arrayBuffer();
    return await fetch(address + new URL(request.url).pathname, { method, headers, body });
  };
  await using way = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    onListen: () => {},
    // The proxy cancelled the request.
    onError: () => new Response(null, { status: 502 }),
  }, passOn);
  const registryUrl = `http://127.0.0.1:${way.addr.port}`;
  const env = { REGISTRY_URL: registryUrl, AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "1000" };
  await using registry = await startServer({ folder: folder.path, env: { ...env, SVC_SERVICE: "registry" } });
  address = registry.address;
  const { apiKey, internalService } = await new RegistryClient(deps, address).bootstrap(BOOTSTRAP_SECRET);
  await using proxy = await startServer({
    folder: folderOfProxy.path,
    env: {
      ...env,
      SVC_SERVICE: "proxy",
      REGISTRY_INTERNAL_SERVICE_ID: internalService.id,
      REGISTRY_INTERNAL_SERVICE_SECRET: internalService.secret,
    },
  });
  const place = { registryUrl: address, proxyUrl: proxy.address };
  const b = await newAgent(place, apiKey.token);
  const senders = await Promise.all(Array.from({ length: 4 }, () => newAgent(place, apiKey.token)));
  for (const sender of senders) await pair(sender, b);
  const connector = await Connector.open(place, b);
  const send = (i: number) => outcome((senders[i % senders.length] ?? b).client.sendMessage(messageTo(b)));
  assertEquals(await send(0), "202 true");

  asked = 0;
  registry.signal("SIGSTOP");
  const stopped = performance.now();
  const waits: Promise<void>[] = [];
  for (let i = 0; i < 75 || performance.now() - stopped < 15_000; i++) {
    const answer = within(20_000, "an answer", send(i));
    waits.push(answer.then((result) => assertEquals(result, "503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE")));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await Promise.all(waits);
  const rate = asked / ((performance.now() - stopped) / 1000);
  assert(rate <= 5, `${waits.length} messages made ${rate.toFixed(1)} requests a second`);
  registry.signal("SIGCONT");
  await eventually(20_000, "messages pass again", async () => await send(0) === "202 true" || undefined);
  for (let i = 0; i < senders.length; i++) assertEquals(await send(i), "202 true");
  await connector.close();
}

// Both cases mostly wait: they run at the same time.
Deno.test("connections and requests that end by a time limit end in time", async (t) => {
  const steps: [name: string, fn: () => Promise<void>][] = [
    ["a vanished connection is not counted after 90 s, and messages meanwhile are 502 in time", vanishing],
    ["a registry that stands still is 503, then 202 when it continues, with few requests", standingStill],
  ];
  await Promise.all(
    steps.map(([name, fn]) => t.step({ name, fn, sanitizeOps: false, sanitizeResources: false, sanitizeExit: false })),
  );
});
