/** `svc send` without a running connector, and where it takes the content of a message from. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { DeliverFrame } from "../../../shared/protocol/frames.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { contextText } from "../../../shared/protocol/message_context.ts";
import { openingKey, openPayload } from "../../../shared/protocol/sealed_body.ts";
import { AgentStore } from "../../../cli/agents/agent_store.ts";
import { lockConnector } from "../../../cli/connector/connector_lock.ts";
import { until } from "../../support/until.ts";
import { whileTimePasses } from "../alpha.ts";
import { contextOf } from "../connector/context.ts";
import type { TestAgent } from "../../support/world.ts";
import type { Machine } from "../cli_world.ts";
import { pairAlpha } from "../connector/local_machine.ts";
import { assertDelivered, withBeta } from "./with_beta.ts";

/** No server accepts a connection. Returns what ends that. */
function noServer(machine: Machine): () => void {
  const cause = new Error("client error (Connect): tcp connect error: Connection refused");
  return machine.answer(/^/, () => Promise.reject(new TypeError("fetch failed", { cause })));
}

/** Makes beta a peer of a ticket. */
function pinBeta(machine: Machine, { agent: { did }, keys: { publicKey: key } }: TestAgent): void {
  const beta = { did, agentName: "beta", humanName: "Bob", key, how: "ticket", since: "" };
  machine.write("agents/alpha/peers.json", JSON.stringify({ beta }));
}

/** The text of a message below the identity block. */
function textOf(frame: DeliverFrame | undefined): string {
  const { message } = JSON.parse(frame?.payload ?? "{}") as { message: string };
  return message.slice(message.indexOf("\n\n") + 2);
}

Deno.test("svc send without a connector seals for a peer of a ticket, by alias and by DID", () =>
  withBeta(async ({ machine, beta, socket }) => {
    pinBeta(machine, beta);
    const key = await openingKey(beta.keys);
    for (const [i, to] of ["beta", beta.agent.did].entries()) {
      assertEquals((await machine.svc("send", to, "the port is 8443")).code, 0);
      const frame = socket.delivered[i];
      assert(frame && !JSON.stringify(frame).includes("8443"));
      const { context } = frame.proof as { context: Record<string, string> };
      const binding = { from: frame.fromAgentDid, to: beta.agent.did, context: contextText(context) };
      assertEquals((await openPayload(frame.payload, key, binding))?.payload, '{"message":"the port is 8443"}');
    }
    machine.write("agents/alpha/peers.json", "{");
    const { code, stderr } = await machine.svc("send", beta.agent.did, "the port is 8443");
    assertEquals([code, socket.delivered.length], [1, 2]);
    assertStringIncludes(stderr, "peers.json is damaged");
  }));

Deno.test("svc send without a connector repeats a message to a ticket peer with the same body for a day", () =>
  withBeta(async ({ world, machine, beta, socket }) => {
    pinBeta(machine, beta);
    const send = (id: string, ...more: string[]) =>
      machine.svc("send", "beta", "the port is 8443", "--request-id", id, ...more);
    machine.loseAnswers();
    assertEquals([(await send("request-1")).code, socket.delivered.length], [5, 1]);
    machine.fetch = world.fetch;
    assertEquals([(await send("request-2")).code, socket.delivered.length], [0, 2]);
    assertEquals([(await send("request-1")).code, socket.delivered.length], [0, 2]);
    world.clock.step(86_400_000);
    assertEquals([(await send("request-1")).code, socket.delivered.length], [0, 3]);
  }));

Deno.test("svc sent lists what was sent without a connector, with the state that is true", () =>
  withBeta(async ({ world, machine, beta, socket }) => {
    const states = async () =>
      (await machine.json("sent")).messages.map((
        { text, state }: { text: string; state: string },
      ) => [text, state]);
    await machine.svc("send", "beta", "it arrives");
    const restore = noServer(machine);
    const refused = await machine.svc("send", "beta", "without a network");
    assertEquals(refused.code, 5);
    assertStringIncludes(refused.stderr, "Nothing was sent, and nothing here sends it later. Repeat with");
    assertStringIncludes(refused.stderr, "while a connector runs, which keeps it: svc connector start alpha");
    restore();
    machine.loseAnswers();
    assertEquals((await machine.svc("send", "beta", "the answer is lost")).code, 5);
    machine.fetch = world.fetch;
    socket.behaviour = "nack";
    await machine.svc("send", "beta", "it is not wanted");
    socket.behaviour = "ack";
    await machine.refuses(["send", (await world.agent()).agent.did, "a stranger"], 3, "PROXY_AUTH_FORBIDDEN");
    const [stranger, unwanted, lost, ...others] = await states();
    assertEquals([stranger, unwanted, others], [["a stranger", "refused"], ["it is not wanted", "refused"], [
      ["without a network", "refused"],
      ["it arrives", "delivered"],
    ]]);
    // The connector of the command that lists asks the proxy how it ended.
    assertEquals([lost[0], ["unknown", "delivered"].includes(lost[1])], ["the answer is lost", true]);
    await until(async () => (await states())[2][1] === "delivered");
    assertStringIncludes((await machine.svc("sent")).stdout, "it arrives");
    assertEquals(socket.delivered.filter(({ fromAgentDid }) => fromAgentDid !== beta.agent.did).length, 3);
  }));

Deno.test("svc sent says that a message was not sent, or is unclear, and prints the line that sends it again", () =>
  withBeta(async ({ world, machine, beta, socket }) => {
    const shown = async (text: string, ...more: string[]) => {
      await machine.svc("send", "beta", text, ...more);
      machine.fetch = world.fetch;
      const [{ requestId }] = (await machine.json("sent")).messages;
      const { stdout, stderr } = await machine.svc("sent", requestId);
      return { requestId, state: /state +(.*)/.exec(stdout)?.[1], next: stderr };
    };
    noServer(machine);
    const one = await shown("it's late", "--conversation", "c-1");
    assertEquals(one.state, "not sent: https://proxy.example.test cannot be reached");
    const again = ["--request-id", one.requestId, "--agent", "alpha", "--conversation", "c-1"];
    assertEquals(one.next, `Next, to send it again: svc send beta 'it'\\''s late' ${again.join(" ")}\n`);
    assertEquals((await machine.svc("send", "beta", "it's late", ...again)).code, 0);
    assertEquals(textOf(socket.delivered[0]), "it's late");
    noServer(machine);
    const two = await shown("two\nlines");
    assertEquals(two.next, `To send it again, repeat its command with --request-id ${two.requestId}.\n`);
    machine.fetch = () => Promise.reject(new TypeError("connection reset"));
    const three = await shown("no answer");
    assertEquals(three.state, "unclear");
    assertStringIncludes(three.next, `svc send beta 'no answer' --request-id ${three.requestId}`);
    assertEquals((await machine.svc("sent", one.requestId, "--to", beta.agent.did)).stderr, "");
  }));

Deno.test("svc send waits for another command that writes, and a connector may start while a request is under way", () =>
  withBeta(async ({ world, machine, socket }) => {
    const answer = Promise.withResolvers<void>();
    machine.fetch = async (input, init) => {
      if (String(input).includes("/hooks/agent")) await answer.promise;
      return await world.fetch(input, init);
    };
    const sent = ["one", "two", "three"].map((text) => machine.svc("send", "beta", text));
    const folder = await new AgentStore(contextOf(world, machine)).open("alpha");
    await until(() => machine.requests.filter((request) => request.includes("/hooks/agent")).length === 3);
    const lock = await lockConnector(folder, 4711);
    answer.resolve();
    assertEquals((await Promise.all(sent)).map(({ code }) => code), [0, 0, 0]);
    lock[Symbol.dispose]();
    assertEquals(socket.delivered.map(textOf).toSorted(), ["one", "three", "two"]);
    assertEquals(
      (await machine.json("sent")).messages.map(({ state }: { state: string }) => state),
      Array(3).fill("delivered"),
    );
  }));

Deno.test("svc send without a connector refuses a contact where SVC_STRICT or runtime.json says so", () =>
  withBeta(async ({ machine, beta, socket }) => {
    machine.env.SVC_STRICT = "1";
    const refused = await machine.svc("send", beta.agent.did, "hello");
    assertStringIncludes(refused.stderr, "CONNECTOR_PEER_UNCONFIRMED");
    delete machine.env.SVC_STRICT;
    machine.write("agents/alpha/runtime.json", JSON.stringify({ platform: "inbox", strict: true }));
    assertEquals([(await machine.svc("send", "beta", "hello")).code === 0, socket.delivered.length], [false, 0]);
    machine.write("agents/alpha/runtime.json", JSON.stringify({ platform: "inbox" }));
    assertEquals([(await machine.svc("send", "beta", "hello")).code, socket.delivered.length], [0, 1]);
  }));

Deno.test("svc send without a connector signs and posts directly", () =>
  withBeta(async ({ machine, beta, socket }) => {
    const { code, stdout, stderr } = await machine.svc("send", "beta", "Hello beta");
    const { requestId } = socket.delivered[0] as DeliverFrame;
    assertEquals([code, stdout, stderr], [0, "", `Sent to beta: arrived (${requestId})\n`]);
    assertEquals(textOf(socket.delivered[0]), "Hello beta");
    assertEquals(machine.requests.map((request) => request.split("=")[0]), ["POST /hooks/agent?ctx"]);

    machine.requests.length = 0;
    const ids = ["--request-id", "request-1", "--conversation", "c-1"];
    assertDelivered(await machine.json("send", beta.agent.did, "again", ...ids), beta);
    assertEquals([socket.delivered[1]?.requestId, socket.delivered[1]?.conversationId], ["request-1", "c-1"]);
    assertEquals(machine.requests.length, 1);
  }));

Deno.test("svc send lets a message wait for an offline peer unless only online peers are wanted", () =>
  withBeta(async ({ world, machine, socket }) => {
    socket.link.lost();
    socket.close(1006, "");
    await world.connected();
    const queued = await machine.json("send", "beta", "later");
    assertEquals([queued.state, typeof queued.expiresAt], ["queued", "string"]);
    assertStringIncludes((await machine.svc("send", "beta", "x")).stderr, "Sent to beta: waits at the server until 20");
    const refused = await machine.failure("send", "beta", "now", "--only-online");
    assertEquals([refused.code, refused.stdout], ["PROXY_RELAY_CONNECTOR_OFFLINE", ""]);
    assertStringIncludes(
      refused.message,
      "when svc peers --agent alpha shows the peer as online. Without --only-online",
    );
  }));

Deno.test("svc send exits with 1 when the peer's connector does not accept the message", () =>
  withBeta(async ({ machine, socket }) => {
    socket.behaviour = "nack";
    const { code, stdout, stderr } = await machine.svc("send", "beta", "x");
    assertEquals([code, stdout], [1, ""]);
    assertStringIncludes(stderr, "Sent to beta: refused: payload_invalid (");
    const json = await machine.svc("send", "beta", "x", "--json");
    assertEquals([json.code, JSON.parse(json.stdout).state, json.stderr], [1, "refused", ""]);
  }));

Deno.test("svc send names the request ID when an online peer did not acknowledge, because it may have arrived", () =>
  withBeta(async ({ world, machine, socket }) => {
    socket.behaviour = "silent";
    const sending = machine.failure("send", "beta", "x", "--only-online", "--request-id", "request-1");
    const { code, message } = await whileTimePasses(world, sending);
    assertEquals(code, "PROXY_RELAY_DELIVERY_FAILED");
    assertStringIncludes(message, "Run the command again with --request-id request-1: the message is delivered once.");
  }));

Deno.test("svc send reads the text from an argument, a pipe, a dash or a file, and JSON unchanged", () =>
  withBeta(async ({ machine, socket }) => {
    const sent = async (argv: string[], stdin: string | null = null) => {
      machine.stdin = stdin;
      assertEquals((await machine.svc("send", "beta", ...argv)).code, 0, argv.join(" "));
      return socket.delivered.at(-1);
    };
    assertEquals(textOf(await sent([], "a\nb")), "a\nb");
    assertEquals(textOf(await sent(["-"], "ä😀\n")), "ä😀\n");
    assertEquals(textOf(await sent(["the argument"], "not this")), "the argument");
    machine.write("text.md", "# Title\r\n\ttab");
    assertEquals(textOf(await sent(["--file", machine.path("text.md")], "not this")), "# Title\r\n\ttab");
    const json = '{"n":12345678901234567890,"message2":[1.10,"\\u0041"]}';
    assertEquals((await sent(["--data", json]))?.payload, json);
    assertEquals((await sent(["--data", "-"], ` ${json}\n`))?.payload, json);
  }));

Deno.test("svc send refuses content that is empty, ambiguous, too large, not UTF-8 or not JSON", () =>
  withBeta(async ({ machine }) => {
    machine.write("large", "x".repeat(LIMITS.payloadBytes));
    Deno.writeFileSync(machine.path("binary"), new Uint8Array([0xff, 0xfe]));
    const file = (name: string) => ["--file", machine.path(name)];
    const cases: [string[], string | null, string][] = [
      [[], null, "CLI_USAGE"],
      [[], "", "CLI_USAGE"],
      [[" \n"], null, "CLI_USAGE"],
      [["a", "--data", "1"], null, "CLI_USAGE"],
      [["a", ...file("large")], null, "CLI_USAGE"],
      [["--data", "1", ...file("large")], null, "CLI_USAGE"],
      [["--data", "{"], null, "CLI_USAGE"],
      [["--data", "[".repeat(65) + "]".repeat(65)], null, "CLI_USAGE"],
      [["--data", "1".repeat(301)], null, "CLI_USAGE"],
      [file("missing"), null, "CLI_USAGE"],
      [file("binary"), null, "CLI_USAGE"],
      [["a", "--timeout", "5"], null, "CLI_USAGE"],
      [["a", "--wait", "--timeout", "3601"], null, "CLI_USAGE"],
      [["a", "--request-id", "short"], null, "CLI_USAGE"],
      [["a", "--conversation", "a,b"], null, "CLI_USAGE"],
      [file("large"), null, "PAYLOAD_TOO_LARGE"],
      [["-"], "x".repeat(LIMITS.payloadBytes), "PAYLOAD_TOO_LARGE"],
      [["--data", "-"], " ".repeat(LIMITS.payloadBytes + 1), "PAYLOAD_TOO_LARGE"],
      [["x".repeat(LIMITS.payloadBytes - 13)], null, "PAYLOAD_TOO_LARGE"],
    ];
    for (const [argv, stdin, expected] of cases) {
      machine.stdin = stdin;
      await machine.refuses(["send", "beta", ...argv], expected === "CLI_USAGE" ? 2 : 1, expected);
    }
    assertEquals(machine.requests, []);
    machine.stdin = null;
    const { stderr } = await machine.svc("send", "beta", "-");
    assertStringIncludes(stderr, "Type the text, then press Enter and Ctrl-D.");
    assertEquals((await machine.svc("send", "beta", "x".repeat(LIMITS.payloadBytes - 14))).code, 0);
  }));

Deno.test("svc send reports an unknown peer with exit code 4, and how to see the peers", () =>
  withBeta(async ({ machine }) => {
    await machine.refuses(["send", "bta", "x"], 4, "CONNECTOR_PEER_UNKNOWN", "svc peers --agent alpha");
    assertEquals(machine.requests, ["GET /pair/peers?limit=500"]);
  }));

Deno.test("the alias of an ended pair leads to no other agent of that name", () =>
  withBeta(async ({ world, machine, beta }) => {
    await machine.json("peers");
    const peerAgentDid = JSON.parse(machine.read("agents/alpha/identity.json")).did;
    await world.fetch(await world.signed(beta, { target: "/pair/remove", body: JSON.stringify({ peerAgentDid }) }));
    const other = await pairAlpha(world, machine, "beta");
    const { peers } = await machine.json("peers");
    assertEquals(peers.map((peer: Record<string, string>) => [peer.alias, peer.agentDid]), [[
      "beta-2",
      other.agent.did,
    ]]);
    // Only a connector saves that a pair has ended, so the message goes to the agent that had the name, and is refused.
    await machine.refuses(["send", "beta", "x"], 3, "PROXY_AUTH_FORBIDDEN");
    assertEquals((await machine.json("send", "beta-2", "x")).to, other.agent.did);
  }));

Deno.test("svc send refreshes an expired session once", () =>
  withBeta(async ({ world, machine, beta }) => {
    await machine.json("peers");
    world.clock.step(16 * 60_000);
    machine.requests.length = 0;
    assertEquals((await machine.svc("send", beta.agent.did, "x")).code, 0);
    const sent = machine.requests.map((request) => request.split("?")[0]);
    assertEquals(sent, ["POST /v1/agents/auth/refresh", "POST /hooks/agent"]);
  }));

Deno.test("svc send names the request ID when the answer is lost, and the same ID delivers the message once", () =>
  withBeta(async ({ world, machine, beta, socket }) => {
    machine.loseAnswers();
    const message = await machine.refuses(["send", beta.agent.did, "x"], 5, "CLI_UNREACHABLE");
    const [, requestId = ""] = /--request-id (\S+):/.exec(message) ?? [];
    machine.fetch = world.fetch;
    const again = await machine.json("send", beta.agent.did, "x", "--request-id", requestId);
    assertEquals([again.state, socket.delivered.length], ["delivered", 1]);
  }));

Deno.test("svc sent shows a message that was sent without a connector, with its receipts", () =>
  withBeta(async ({ machine, beta, world }) => {
    const { requestId } = await machine.json("send", "beta", "x");
    const open = await machine.json("sent", requestId, "--to", "beta");
    assertEquals([open.state, open.to, open.receipts], ["delivered", beta.agent.did, []]);
    const sender = JSON.parse(machine.read("agents/alpha/identity.json")).did;
    await beta.client.submitReceipt({
      requestId,
      recipientAgentDid: beta.agent.did,
      senderAgentDid: sender,
      status: "processed_by_svc",
      timestamp: new Date(world.clock.now()).toISOString(),
    });
    const ended = await machine.json("sent", requestId, "--to", beta.agent.did);
    assertEquals([ended.state, ended.receipts.length], ["processed", 1]);
    const { stdout } = await machine.svc("sent", requestId, "--to", "beta");
    assertStringIncludes(stdout, `${requestId} to beta\n`);
    assertStringIncludes(stdout, "processed_by_svc");
    assertEquals((await machine.failure("sent", "short", "--to", "beta")).exit, 2);
    const { message } = await machine.failure("sent", "ZZZZZZ");
    assertEquals(
      message,
      "No sent message ends in ZZZZZZ. Run svc sent --agent alpha to see them, or give a whole ID.",
    );
  }));
