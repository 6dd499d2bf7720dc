/**
 * A2A with real processes (D-134, D-135): the client of the A2A SDK reaches a peer through two connectors, the runtime of the
 * peer is the server of that SDK, and a connector that is killed while a task works sends one reply.
 */
import { assertEquals } from "@std/assert";
import { TaskState } from "@a2a-js/sdk";
import { A2A_CARD, A2aAgent, type AgentCall } from "../cli/connector/a2a_agent.ts";
import { attempt, RunningConnector, svc } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { a2aClient, textOf } from "../support/a2a_client_program.ts";
import { eventually, Service, tempFolder } from "../support/process.ts";
import { pairedNames } from "./harness.ts";
import { longTest } from "../support/trials.ts";

const program = await bundledProgram();

/** An A2A agent on a port. */
class Runtime implements AsyncDisposable {
  readonly open: AgentCall[] = [];
  readonly #ended = Promise.withResolvers<void>();
  readonly agent = new A2aAgent(async (call) => {
    this.open.push(call);
    if (!call.text.includes("wait")) return call.say(TaskState.TASK_STATE_COMPLETED, "42");
    call.say(TaskState.TASK_STATE_WORKING);
    await this.#ended.promise;
  });
  readonly #server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    return request.method === "GET"
      ? Response.json(A2A_CARD)
      : await this.agent.answer(await request.text(), request.headers);
  });

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** Ends the open task with a result. */
  end(text: string): void {
    this.open.at(-1)?.say(TaskState.TASK_STATE_COMPLETED, text);
    this.#ended.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.resolve();
    await this.#server.shutdown();
  }
}

longTest("an A2A client gets the result of an A2A agent behind the connector of a peer", async (t) => {
  await using service = await Service.here();
  await using folder = await tempFolder();
  await using runtime = new Runtime();
  const dir = folder.path;
  await pairedNames(service, dir, ["alpha", "beta"]);
  await svc(dir, ["install", "--for", "a2a", "--agent-name", "beta"], {}, program);
  const alphaOnly = ["--agent", "alpha"];
  const early = await attempt(dir, ["a2a", "add", "beta", ...alphaOnly], {}, program);
  assertEquals([early.code, early.error?.code], [2, "CLI_USAGE"]);
  await using _alpha = await RunningConnector.start(dir, "alpha", ["--inbox"], { program });
  const startBeta = () =>
    RunningConnector.start(dir, "beta", ["--runtime-base-url", runtime.url, "--hook-token", "t"], { program });
  const { url, token } = await svc(dir, ["a2a", "add", "beta", ...alphaOnly], {}, program);
  const send = await a2aClient(url, token);

  await t.step("offline, then online", async () => {
    const { status, id } = await send("What is it?", "m-1", true);
    assertEquals(status?.state, TaskState.TASK_STATE_SUBMITTED);
    await using _beta = await startBeta();
    const task = await send("What is it?", "m-1");
    assertEquals([task.id, task.status?.state, textOf(task)], [id, TaskState.TASK_STATE_COMPLETED, "42"]);
    assertEquals(runtime.open.length, 1);
  });

  await t.step("a connector that is killed while the task works sends one reply", async () => {
    let beta = await startBeta();
    const asked = send("Please wait", "m-2");
    await eventually(30_000, "the task works", () => runtime.open.length === 2 || undefined);
    const isHandedOver = () => beta.events.some(({ event }) => event === "handed_over") || undefined;
    await eventually(30_000, "the task is stored", isHandedOver);
    beta.child.signal("SIGKILL");
    await beta.child.status;
    runtime.end("done");
    beta = await startBeta();
    try {
      const task = await asked;
      assertEquals([task.status?.state, textOf(task)], [TaskState.TASK_STATE_COMPLETED, "done"]);
      assertEquals(runtime.agent.methods.filter((method) => method === "SendMessage").length, 2);
      const { messages } = await svc(dir, ["inbox", "--read", ...alphaOnly], {}, program);
      assertEquals(messages.map(({ text }: { text: string }) => text), ["42", "done"]);
    } finally {
      await beta[Symbol.asyncDispose]();
    }
  });

  await t.step("list and remove", async () => {
    const { peers } = await svc(dir, ["a2a", "list", ...alphaOnly], {}, program);
    assertEquals(peers.map((peer: { alias: string; url: string }) => [peer.alias, peer.url]), [["beta", url]]);
    await svc(dir, ["a2a", "remove", "beta", ...alphaOnly], {}, program);
    const gone = await fetch(url, { method: "POST", headers: { Authorization: `Bearer ${token}` }, body: "{}" });
    await gone.body?.cancel();
    assertEquals(gone.status, 401);
    const again = await attempt(dir, ["a2a", "remove", "beta", ...alphaOnly], {}, program);
    assertEquals([again.code, again.error?.code], [4, "CONNECTOR_PEER_UNKNOWN"]);
  });
});
