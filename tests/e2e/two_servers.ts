/** Two people with a server, an account and an agent each: questions, answers and what waits, by every kind of program. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { Child } from "../bench/child.ts";
import { mcpArgs, McpPipe } from "../support/mcp_pipe.ts";
import { eventually, within } from "../support/process.ts";
import { START_MS, SVC } from "./machine_person.ts";
import { connectAgent, openTeam, type Team } from "./server_team.ts";

const A2A_CLIENT = "tests/support/a2a_client_program.ts";

/** @param isWhole also with the tools of models, and with a message that waits for a server that is off */
export async function twoServers(a: Team, b: Team, isWhole = true): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const [ofA, ofB] = [await openTeam(a), await openTeam(b)];
  for (const { server } of [ofA, ofB]) stack.use(server);
  stack.use(ofA.connector);
  let beta = ofB.connector;
  const { ticket = "" } = await a.person.call(a.agent, "/v1/pair/start", {});
  await b.person.call(b.agent, "/v1/pair/confirm", { ticket });
  await within(START_MS, "alpha learns of it", ofA.connector.stdout.match(/"event":"paired"/));

  // The question of the README, and its answer; then the other way.
  for (
    const [asker, answerer, text] of [[a, b, "Which port does the staging server use?"], [b, a, "And yours?"]] as const
  ) {
    const asking = asker.person.start(["send", answerer.alias, "--wait", text, "--agent", asker.agent]);
    const unread = async () => {
      const { messages } = JSON.parse(await answerer.person.svc("inbox", "--json", "--agent", answerer.agent));
      return messages.find((message: { text: string }) => message.text === text);
    };
    const { id, from, verified } = await eventually(START_MS, "the question", unread);
    assertEquals([from.alias, verified], [asker.alias, "end-to-end"]);
    await answerer.person.svc("reply", String(id), "8443", "--agent", answerer.agent);
    const { code } = await within(START_MS, "the answer", asking.status);
    assertEquals([code, asking.stdout.text.trim()], [0, "8443"], asking.printed);
  }

  if (isWhole) await askedByModels(a, b);
  await askedByA2a(a, b);

  // The second day: Bob's machine is off, and Ada's message waits at his server.
  assertEquals((await beta.end()).code, 0);
  await a.person.svc("send", b.alias, "waits for you");
  beta = await connectAgent(b.person, b.agent);
  await within(START_MS, "the message", beta.stdout.match(/"event":"received"/));
  assertStringIncludes(await b.person.svc("inbox", "--take"), "waits for you");
  const [{ requestId }] = JSON.parse(await a.person.svc("sent", "--json")).messages;
  await eventually(START_MS, "the receipt", async () => {
    const { state } = JSON.parse(await a.person.svc("sent", requestId, "--json"));
    return state === "processed" ? true : undefined;
  });

  if (!isWhole) return void stack.use(beta);
  // Bob's whole server is off: the message waits with Ada.
  assertEquals((await beta.end()).code, 0);
  assertEquals((await ofB.server.end("SIGTERM")).code, 0);
  await using asking = a.person.start(["send", b.alias, "kept for you"]);
  await within(START_MS, "svc send", asking.status);
  assertStringIncludes(asking.printed, "cannot be reached");
  stack.use(b.person.start([...b.serve, "--store", `${b.person.folder}/svc.kv`]));
  beta = stack.use(await connectAgent(b.person, b.agent));
  await within(START_MS, "the kept message", beta.stdout.match(/"event":"received"/));
  assertStringIncludes(await b.person.svc("inbox", "--take"), "kept for you");
}

/** Two models ask and answer with the tools of `svc mcp`, which use the connectors that run. */
async function askedByModels(a: Team, b: Team): Promise<void> {
  await using asker = await mcpOf(a);
  await using answerer = await mcpOf(b);
  const asking = asker.call("send_message", { to: b.alias, text: "And the host?", wait_seconds: 45 });
  const { messages: [question] } = await answerer.call("wait_for_message", { timeout_seconds: 45 });
  assertEquals([question.from.alias, question.text], [a.alias, "And the host?"]);
  await answerer.call("send_message", { to: a.alias, text: "staging-2", reply_to: question.id });
  assertStringIncludes(JSON.stringify(await within(START_MS, "the answer", asking)), "staging-2");
}

function mcpOf({ person, agent }: Team): Promise<McpPipe> {
  const { command, args } = person.machine.program(SVC);
  const env = { NO_COLOR: "1", ...person.env };
  return McpPipe.over(new Child([...args, ...mcpArgs(person.folder, agent)], env, command));
}

/** An A2A client on Ada's machine reaches Bob's agent. */
async function askedByA2a(a: Team, b: Team): Promise<void> {
  const { url, token } = JSON.parse(await a.person.svc("a2a", "add", b.alias, "--agent", a.agent, "--json"));
  const client = { name: "A2A client", command: Deno.execPath(), args: ["run", "-A", "--quiet", A2A_CLIENT] };
  await using asking = a.person.start([url, token, "And the user?"], client);
  const { id } = await eventually(START_MS, "the question", async () => {
    const { messages } = JSON.parse(await b.person.svc("inbox", "--json", "--agent", b.agent));
    return messages.find((message: { text: string }) => message.text === "And the user?");
  });
  await b.person.svc("reply", String(id), "deploy", "--agent", b.agent);
  await within(START_MS, "the result", asking.status);
  assertEquals(asking.stdout.text.trim(), "completed: deploy", asking.printed);
}
