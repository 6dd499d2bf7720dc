/**
 * A process of another user takes the runtime's port while the runtime is down (D-397): it gets no request, the message
 * waits, `doctor` says why, and the runtime gets the message when it has its port again. Needs root, to become another user.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { PairedAgents } from "../cli/connector/paired_agents.ts";
import { Listener, RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { isInstalled } from "../support/installed.ts";
import { ChildProcess, eventually, freePort, within } from "../support/process.ts";

const NOBODY = "65534";
const canChangeUser = Deno.uid() === 0 && await isInstalled("setpriv");
if (!canChangeUser) console.log("A port of another user is NOT tried here: that needs root and setpriv");

/** Answers each request with 200 and prints it. */
const THIEF = `Deno.serve({ hostname: "127.0.0.1", port: Number(Deno.args[0]), onListen }, async (request) => {
  console.log("stolen", request.url, request.headers.get("authorization"), await request.text());
  return new Response("ok");
});
function onListen() {
  console.log("listens");
}`;

Deno.test({
  name: "a message waits for the runtime, and another user at its port gets nothing",
  ignore: !canChangeUser,
  async fn() {
    await using agents = await PairedAgents.open(await bundledProgram());
    const port = freePort();
    const as = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"];
    const env = { DENO_DIR: "/nonexistent", DENO_NO_UPDATE_CHECK: "1" };
    const thief = new ChildProcess(
      [...as, Deno.execPath(), "eval", "--no-config", THIEF, String(port)],
      env,
      "setpriv",
    );
    await using _thief = thief;
    await within(30_000, `the other user listens\n${thief.printed}`, thief.stdout.match(/listens/));
    const url = `http://127.0.0.1:${port}`;
    const options = { program: agents.program, env: { SVC_HOOK_TOKEN: "hook-token" } };
    await using alpha = await agents.connector("alpha");
    await using beta = await RunningConnector.start(agents.dir, "beta", ["--runtime-base-url", url], options);
    const sent = { to: "beta", text: "for the runtime", prefer: "respond-async" };
    assertEquals((await alpha.json("POST", "/v1/outbound?wait=0", sent)).state, "delivered");
    await eventually(30_000, "the hand-over is refused", async () => {
      const { runtime, inbox } = await beta.json("GET", "/v1/status");
      return runtime.problem?.startsWith("runtime_of_other_user") && inbox.waiting === 1 || undefined;
    });
    const doctor = await agents.run("beta", "svc provider doctor --agent-name beta");
    assertStringIncludes(doctor.stdout, "runtime_of_other_user");
    await thief.end();
    assertEquals(thief.stdout.text.includes("stolen"), false, thief.printed);
    await using runtime = new Listener(port);
    await eventually(
      120_000,
      "the runtime gets the message",
      () => Promise.resolve(runtime.received.length || undefined),
    );
    assertStringIncludes(runtime.received[0]?.body ?? "", "for the runtime");
  },
});
