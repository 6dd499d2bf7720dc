/**
 * An HTTP proxy of the environment: it receives no request to this machine from commands, connector, hand-over, local API
 * or server. Requests to other addresses go through it unless NO_PROXY names them.
 */
import { assert, assertEquals } from "@std/assert";
import { withLoopback } from "../../shared/no_proxy.ts";
import { attempt, Listener, RunningConnector, svc } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { ChildProcess, eventually, messageTo, Service, SOON_MS, tempFolder, within } from "../support/process.ts";
import { RecordingProxy } from "../support/recording_proxy.ts";
import { pairedAgents } from "./harness.ts";

const program = await bundledProgram();

Deno.test("a proxy of the environment gets no request when registry, proxy, runtime and local API are local", async () => {
  await using proxy = new RecordingProxy();
  // The bundle is started without its launcher, so Deno itself would look for a new version of Deno.
  const proxyEnv = { ...proxy.env, DENO_NO_UPDATE_CHECK: "1" };
  await using service = await Service.here();
  await using runtime = new Listener();
  const env = { ...proxyEnv, SVC_API_KEY: service.apiKey, SVC_REGISTRY_URL: service.url };
  const dir = service.home;
  const { a, b } = await pairedAgents(service, dir);
  const args = ["--runtime-base-url", runtime.url, "--hook-token", "hook-token"];
  await using connector = await RunningConnector.start(dir, "b", args, { env, program });
  const recipientDid = b.agent.did;
  const { requestId } = await a.client.sendMessage({ recipientDid, payload: '{"message":"hi"}' });
  await eventually(SOON_MS, "the message is processed", async () => {
    const { receipts } = await a.client.receipts(requestId, recipientDid);
    return receipts[0]?.status === "processed_by_svc" || undefined;
  });
  await svc(dir, ["connector", "status", "b"], env, program);
  await svc(dir, ["agent", "auth", "refresh", "b"], env, program);
  await connector.child.end("SIGTERM");
  assertEquals([runtime.received.length, proxy.seen], [1, []]);
});

Deno.test("a proxy of the environment gets no request of a server to its registry or its store on this machine", async () => {
  await using proxy = new RecordingProxy();
  const env = { ...proxy.env, DENO_NO_UPDATE_CHECK: "1" };
  await using service = await Service.open(env, true);
  const { a, b } = await service.agents();
  const connector = await service.connect(b);
  assertEquals((await a.client.sendMessage(messageTo(b))).delivered, true);
  await connector.close();
  const network = { ...env, KV_URL: "http://127.0.0.1:1", DENO_KV_ACCESS_TOKEN: "the-token-of-a-test" };
  for (const words of [["deploy.ts"], ["deploy_store.ts", "inspect"]]) {
    await using program = new ChildProcess(["run", "--quiet", "--no-prompt", "-P=server", ...words], network);
    const { code } = await within(SOON_MS, "the store is not reached", program.status);
    assertEquals([code, proxy.seen], [2, []], program.printed);
  }
});

Deno.test("a proxy of the environment is used for another machine unless NO_PROXY names it", async () => {
  await using proxy = new RecordingProxy();
  // The bundle is started without its launcher, so Deno itself would look for a new version of Deno.
  const proxyEnv = { ...proxy.env, DENO_NO_UPDATE_CHECK: "1" };
  await using folder = await tempFolder();
  const init = ["config", "init", "--registry-url", "http://registry.invalid", "--allow-insecure"];
  for (const NO_PROXY of ["registry.invalid", "other.example, *"]) {
    const { code } = await attempt(folder.path, init, { ...proxyEnv, NO_PROXY }, program);
    assertEquals([code, proxy.seen], [5, []], NO_PROXY);
  }
  await attempt(folder.path, init, proxyEnv, program);
  assert(proxy.seen[0]?.startsWith("GET http://registry.invalid/"), proxy.seen[0]);
});

Deno.test("the exclusions keep given addresses and add the loopback addresses", () => {
  const loopback = "localhost,127.0.0.0/8,::1";
  assertEquals(withLoopback(undefined), loopback);
  assertEquals(withLoopback(" a.example, ,10.0.0.0/8"), `a.example,10.0.0.0/8,${loopback}`);
  assertEquals(withLoopback("*"), `*,0.0.0.0/0,::/0,${loopback}`);
});
