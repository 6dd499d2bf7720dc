/**
 * A2A with the real OpenClaw gateway, both ways (D-134, D-135). Only with `deno task e2e -- --openclaw`: it downloads about
 * 800 MB. The model behind the gateway always answers yes.
 */
import { assert, assertEquals } from "@std/assert";
import { denoDir, RunningConnector, svc } from "../cli/connector/people.ts";
import { bundledProgram, output } from "../cli/program.ts";
import { pairedNames } from "../e2e/harness.ts";
import { eventually, Service, tempFolder } from "../support/process.ts";
import { installGateway, Model } from "./openclaw_gateway.ts";

Deno.test({
  name: "the real OpenClaw answers two peers over A2A, and sends to one through its local address",
  ignore: !Deno.args.includes("--openclaw"),
  async fn(t) {
    const program = await bundledProgram();
    await using service = await Service.open();
    await using folder = await tempFolder();
    await using model = new Model();
    const dir = `${folder.path}/svc`;
    const { gateway: installed, settings } = await installGateway(`${folder.path}/openclaw`, model);
    await using gateway = installed;
    const env = { ...gateway.env, SVC_API_KEY: service.apiKey, SVC_REGISTRY_URL: service.url, DENO_DIR: denoDir() };
    await svc(dir, ["config", "init"], env, program);
    await pairedNames(service, dir, ["alpha", "beta", "gamma"]);
    const run = (...args: string[]) =>
      output(program.command, [...program.args, ...args], { ...env, SVC_CONFIG_DIR: dir });

    /** Waits until a run succeeds: while another of its processes holds its state, OpenClaw fails each run. */
    const works = () =>
      eventually(120_000, "a run succeeds", async () => {
        return (await run("send", "beta", "Are you there?", "--wait", "--agent", "alpha")).stdout === "yes\n" ||
          undefined;
      });

    await svc(dir, ["install", "--for", "a2a", "--agent-name", "beta"], env, program);
    const setup = ["provider", "setup", "--for", "a2a", "--agent-name", "beta"];
    const { changed, url } = await svc(dir, setup, env, program);
    assertEquals([changed, url], [[settings], `${gateway.url}/a2a/v1`]);
    await gateway.start();
    await using connector = await RunningConnector.start(dir, "beta", [], { env, program });

    await t.step("svc send --wait prints its answer, for each peer in a session of its own", async () => {
      await works();
      for (const name of ["alpha", "gamma"]) {
        const { code, stdout, stderr } = await run("send", "beta", `Hello from ${name}`, "--wait", "--agent", name);
        assertEquals([code, stdout], [0, "yes\n"], stderr + connector.child.printed);
      }
      const asked = model.asked.filter((body) => body.includes("Hello from"));
      const peers = asked.map((body) => ["alpha", "gamma"].filter((name) => body.includes(`Hello from ${name}`)));
      assertEquals(new Set(peers.map((named) => named.join(" "))), new Set(["alpha", "gamma"]));
    });

    await t.step("doctor passes", async () => {
      const { healthy, checks } = await svc(dir, ["provider", "doctor", "--agent-name", "beta"], env, program);
      assert(healthy, JSON.stringify(checks));
    });

    await t.step(
      "OpenClaw sends to a peer, and gets the answer as a message because it does not ask for it",
      async () => {
        const added = await svc(dir, ["a2a", "add", "alpha", "--for", "openclaw", "--agent", "beta"], env, program);
        assertEquals([added.changed, added.target], [settings, "a2a:svc-alpha"]);
        await gateway.stop();
        await gateway.start();
        await works();
        const before = model.asked.length;
        const line = [
          "message",
          "send",
          "--channel",
          "a2a",
          "--target",
          "svc-alpha",
          "--message",
          "How are you?",
          "--json",
        ];
        await gateway.run(...line);
        const { code, stdout } = await run("inbox", "--agent", "alpha", "--json");
        assertEquals(code, 0);
        const { messages: [message] } = JSON.parse(stdout);
        assertEquals([message.text, message.from.alias], ["How are you?", "beta"]);
        assertEquals(model.asked.length, before);
        await works();
        assertEquals((await run("reply", String(message.id), "Fine, thanks", "--agent", "alpha")).code, 0);
        await eventually(90_000, "OpenClaw has the answer", () => {
          return model.asked.slice(before).some((body) => body.includes("Fine, thanks")) || undefined;
        }).catch((cause) => {
          throw new Error(connector.child.printed, { cause });
        });
      },
    );
  },
});
