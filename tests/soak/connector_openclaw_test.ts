/**
 * The real OpenClaw gateway, installed from npm, behind a connector: set-up, doctor, a message of another agent that
 * starts a run, a wrong token, the gateway stopped and started again. Only with `deno task e2e -- --openclaw`: it
 * downloads about 800 MB. The model behind the gateway is a small server here, which records the input of each run.
 */
import { assert, assertEquals } from "@std/assert";
import { attempt, clientFromFiles, denoDir, RunningConnector, svc } from "../cli/connector/people.ts";
import { eventually, Service, tempFolder } from "../support/process.ts";
import { installGateway, Model } from "./openclaw_gateway.ts";

Deno.test({
  name: "the real OpenClaw runs what another agent sends it, and the sender controls nothing else",
  ignore: !Deno.args.includes("--openclaw"),
  async fn(t) {
    await using service = await Service.open();
    await using folder = await tempFolder();
    await using model = new Model();
    const [dir, place] = [`${folder.path}/svc`, `${folder.path}/openclaw`];
    const { gateway: installed, settings } = await installGateway(place, model);
    await using gateway = installed;
    const env = { ...gateway.env, SVC_API_KEY: service.apiKey, SVC_REGISTRY_URL: service.url, DENO_DIR: denoDir() };
    await svc(dir, ["config", "init"], env);
    await svc(dir, ["agent", "create", "beta"], env);
    const a = await service.agent("a");
    const b = await clientFromFiles(dir, "beta", service.url);
    const { ticket } = await a.client.pairStart({ agentName: "a", humanName: "A" });
    await b.pairConfirm(ticket, { agentName: "beta", humanName: "B" });

    const send = async (payload: object) =>
      (await a.client.sendMessage({ recipientDid: b.agent.did, payload: JSON.stringify(payload) })).requestId;
    const receipt = (requestId: string) =>
      eventually(90_000, "the receipt is there", async () => {
        return (await a.client.receipts(requestId, b.agent.did)).receipts[0]?.status;
      });
    const asked = (text: string) =>
      eventually(90_000, `a run with "${text}"`, () => model.asked.find((body) => body.includes(text)));
    const failing = async () => {
      const { result } = await attempt(dir, ["provider", "doctor"], env);
      return (result.checks as { name: string; ok: boolean }[]).filter(({ ok }) => !ok).map(({ name }) => name);
    };

    await t.step("install, setup, and a doctor that reports that the gateway is down", async () => {
      const { url } = await svc(dir, ["install", "--for", "openclaw"], env);
      assertEquals(url, `${gateway.url}/hooks/agent`);
      assertEquals((await svc(dir, ["provider", "setup", "--for", "openclaw"], env)).changed, [settings]);
      assertEquals(await failing(), ["runtime", "hook", "connector"]);
    });

    await gateway.start();
    await using connector = await RunningConnector.start(dir, "beta", [], { env });
    const status = () => connector.json("GET", "/v1/status");

    await t.step("doctor passes", async () => assertEquals(await failing(), []));

    await t.step("a message starts a run with its sender in front, and controls nothing else", async () => {
      const steering = { agentId: "nobody", sessionKey: "agent:main:main", model: "x/y", channel: "z", to: "q" };
      assertEquals(await receipt(await send({ message: "Hello from another agent", ...steering })), "processed_by_svc");
      const seen = await asked("Hello from another agent");
      assert(seen.includes("[Svc Identity]") && seen.includes(a.agent.did));
      assertEquals(await receipt(await send({ no: "text at all" })), "processed_by_svc");
      await asked("text at all");
    });

    await t.step("messages wait while the gateway is down and run when it is back", async () => {
      await gateway.stop();
      const requestId = await send({ message: "Sent while it was down" });
      await eventually(60_000, "it is seen to be down", async () => !(await status()).runtime.reachable || undefined);
      assertEquals((await status()).inbox.waiting, 1);
      assertEquals((await failing()).slice(0, 2), ["runtime", "hook"]);
      await gateway.start();
      assertEquals(await receipt(requestId), "processed_by_svc");
      await asked("Sent while it was down");
      assertEquals(await failing(), []);
    });

    await t.step("a wrong token is reported as such, and the message runs with the right one", async () => {
      await connector.child.end("SIGTERM");
      await using wrong = await RunningConnector.start(dir, "beta", ["--hook-token", "not-the-one"], { env });
      const requestId = await send({ message: "Sent with a wrong token" });
      const { runtime } = await eventually(30_000, "it is refused", async () => {
        const now = await wrong.json("GET", "/v1/status");
        return now.runtime.problem === null ? undefined : now;
      });
      assertEquals([runtime.reachable, runtime.problem], [true, "status 401"]);
      assertEquals(await failing(), ["hand-over"]);
      assert(!wrong.child.printed.includes("not-the-one"));
      await wrong.child.end("SIGTERM");
      await using right = await RunningConnector.start(dir, "beta", [], { env });
      assertEquals(await receipt(requestId), "processed_by_svc", right.child.printed);
      await asked("Sent with a wrong token");
    });
  },
});
