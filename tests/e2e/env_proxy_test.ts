/**
 * An HTTP proxy of the environment (D-224): it receives no request to this machine from commands, connector, hand-over
 * or local API. Requests to other addresses go through it unless NO_PROXY names them.
 */
import { assert, assertEquals } from "@std/assert";
import { withLoopback } from "../../cli/context.ts";
import { attempt, clientFromFiles, Listener, RunningConnector, svc } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { eventually, Service, tempFolder } from "../support/process.ts";

const program = await bundledProgram();

/** A proxy that records the first line of each request and answers 502. */
class RecordingProxy implements AsyncDisposable {
  readonly seen: string[] = [];
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #accepting = this.#accept();

  get env(): Record<string, string> {
    const url = `http://127.0.0.1:${(this.#listener.addr as Deno.NetAddr).port}`;
    const names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    const all = [...names, ...names.map((name) => name.toLowerCase())].map((name) => [name, url]);
    // Deno itself checks once a day for a new version of Deno.
    return { ...Object.fromEntries(all), DENO_NO_UPDATE_CHECK: "1" };
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

Deno.test("a proxy of the environment gets no request when registry, proxy, runtime and local API are local", async () => {
  await using proxy = new RecordingProxy();
  await using service = await Service.open();
  await using folder = await tempFolder();
  await using runtime = new Listener();
  const env = { ...proxy.env, SVC_API_KEY: service.apiKey, SVC_REGISTRY_URL: service.url };
  const dir = folder.path;
  await svc(dir, ["config", "init", "--registry-url", service.url], env, program);
  await svc(dir, ["agent", "create", "b"], env, program);
  const a = await service.agent("a");
  const b = await clientFromFiles(dir, "b", service.url);
  const { ticket } = await a.client.pairStart({ agentName: "a", humanName: "A" });
  await b.pairConfirm(ticket, { agentName: "b", humanName: "B" });
  const args = ["--runtime-base-url", runtime.url, "--hook-token", "hook-token"];
  await using connector = await RunningConnector.start(dir, "b", args, { env, program });
  const recipientDid = b.agent.did;
  const { requestId } = await a.client.sendMessage({ recipientDid, payload: '{"message":"hi"}' });
  await eventually(20_000, "the message is processed", async () => {
    const { receipts } = await a.client.receipts(requestId, recipientDid);
    return receipts[0]?.status === "processed_by_svc" || undefined;
  });
  await svc(dir, ["connector", "status", "b"], env, program);
  await svc(dir, ["agent", "auth", "refresh", "b"], env, program);
  await connector.child.end("SIGTERM");
  assertEquals([runtime.received.length, proxy.seen], [1, []]);
});

Deno.test("a proxy of the environment is used for another machine unless NO_PROXY names it", async () => {
  await using proxy = new RecordingProxy();
  await using folder = await tempFolder();
  const init = ["config", "init", "--registry-url", "http://registry.invalid", "--allow-insecure"];
  for (const NO_PROXY of ["registry.invalid", "other.example, *"]) {
    const { code } = await attempt(folder.path, init, { ...proxy.env, NO_PROXY }, program);
    assertEquals([code, proxy.seen], [5, []], NO_PROXY);
  }
  await attempt(folder.path, init, proxy.env, program);
  assert(proxy.seen[0]?.startsWith("GET http://registry.invalid/"), proxy.seen[0]);
});

Deno.test("the exclusions keep given addresses and add the loopback addresses", () => {
  const loopback = "localhost,127.0.0.0/8,::1";
  assertEquals(withLoopback(undefined), loopback);
  assertEquals(withLoopback(" a.example, ,10.0.0.0/8"), `a.example,10.0.0.0/8,${loopback}`);
  assertEquals(withLoopback("*"), `*,0.0.0.0/0,::/0,${loopback}`);
});
