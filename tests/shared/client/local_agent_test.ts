/** `LocalAgent` next to a connector that is a listener of the test. */
import { assertEquals, assertRejects } from "@std/assert";
import { LocalAgent } from "../../../shared/client/local_agent.ts";
import { SvcError } from "../../../shared/client/svc_error.ts";
import { FakeConnector, refusal } from "./fake_connector.ts";
import { tempFolder } from "../../support/temp_folder.ts";
import { didOf } from "./library_bench.ts";

/** Opens the agent alpha over a listener that answers as `connector`. */
async function opened(connector: FakeConnector, profile?: string) {
  const stack = new AsyncDisposableStack();
  const { path } = stack.use(await tempFolder());
  // Ends a call that waits for a message.
  const gone = new AbortController();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {}, onError: () => new Response() },
    async (request) => {
      const { pathname } = new URL(request.url);
      if (pathname === "/v1/status") return Response.json({ agent: { did: didOf("A") } });
      const { method } = request, body = method === "GET" ? null : await request.text();
      return await connector.local.deps.fetch(request.url, { method, body, signal: gone.signal });
    },
  );
  stack.defer(() => server.shutdown());
  stack.defer(() => gone.abort());
  const configDir = profile === undefined ? path : `${path}/profiles/${profile}`, folder = `${configDir}/agents/alpha`;
  await Deno.mkdir(folder, { recursive: true });
  const url = `http://127.0.0.1:${server.addr.port}`;
  const file = { url, port: server.addr.port, token: "t", pid: Deno.pid, agentDid: didOf("A"), startedAt: "" };
  await Deno.writeTextFile(`${folder}/connector.json`, JSON.stringify(file), { mode: 0o600 });
  const env = { SVC_CONFIG_DIR: path, SVC_PROFILE: profile ?? "" };
  for (const [name, value] of Object.entries(env)) Deno.env.set(name, value);
  stack.defer(() => Object.keys(env).forEach((name) => Deno.env.delete(name)));
  const agent = stack.use(await LocalAgent.open({ name: "alpha" }));
  return { agent, [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose]() };
}

Deno.test("an agent is opened in the profile that SVC_PROFILE names, unless the program names a folder", async () => {
  await using connector = await FakeConnector.open();
  await using place = await opened(connector, "work");
  assertEquals(place.agent.name, "alpha");
  const configDir = Deno.env.get("SVC_CONFIG_DIR");
  await assertRejects(() => LocalAgent.open({ name: "alpha", configDir }), SvcError, "There is no agent at");
  Deno.env.set("SVC_PROFILE", "../work");
  await assertRejects(() => LocalAgent.open({ name: "alpha" }), SvcError, 'SVC_PROFILE is "../work"');
});

Deno.test("a question whose reply is an error rejects with the reply, which no handler gets", async () => {
  await using connector = await FakeConnector.open();
  await using place = await opened(connector);
  const seen: string[] = [];
  place.agent.onMessage(({ requestId }) => void seen.push(requestId));
  const error = { code: "TASK_FAILED", message: "out of memory" };
  connector.receive("answer-01", { inReplyTo: "question-1", isReply: true, text: "No", error });
  const asked = place.agent.ask("beta", "?", { requestId: "question-1" });
  const rejected = await assertRejects(() => asked, SvcError, "beta could not answer: TASK_FAILED: out of memory");
  assertEquals([rejected.code, rejected.reply?.error, rejected.reply?.text], ["REPLY_ERROR", error, "No"]);
  connector.receive("request-2");
  while (seen.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  assertEquals(seen, ["request-2"]);
});

Deno.test("a reply names sender and question, because a new database gives the number to another message", async () => {
  await using connector = await FakeConnector.open();
  await using place = await opened(connector);
  connector.receive("request-1");
  const [message] = connector.inbox;
  place.agent.onMessage(async (question) => {
    await place.agent.reply(question, "soon");
    return "done";
  });
  while (connector.sent.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  const wanted = [message?.from.agentDid, 1, "request-1"];
  assertEquals(connector.sent.map(({ to, replyTo, inReplyTo }) => [to, replyTo, inReplyTo]), [wanted, wanted]);
});

Deno.test("a refusal says how long to wait", async () => {
  await using connector = await FakeConnector.open();
  await using place = await opened(connector);
  connector.tamper = () => refusal(429, "RATE_LIMIT_EXCEEDED", 7);
  const error = await assertRejects(() => place.agent.send("beta", "x"), SvcError);
  assertEquals([error.status, error.retryAfter], [429, 7]);
});

Deno.test("close() ends a question that waits, and each later call", async () => {
  await using connector = await FakeConnector.open();
  await using place = await opened(connector);
  const reached = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<Response>();
  connector.tamper = () => {
    reached.resolve();
    return gate.promise;
  };
  const asked = place.agent.ask("beta", "?", { timeoutMs: 600_000 });
  await reached.promise;
  const rejected = assertRejects(() => asked, SvcError, "the agent was closed");
  await place.agent.close();
  assertEquals((await rejected).code, "NO_REPLY");
  const late = await assertRejects(() => place.agent.send("beta", "x"), SvcError, "was closed");
  assertEquals(late.code, "CONNECTOR_DOWN");
  gate.resolve(refusal(500, "INTERNAL_ERROR"));
});
