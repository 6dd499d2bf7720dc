/** `svc inbox`, `svc reply`, `svc send` and `svc sent` with a running connector. */
import type { StartOptions } from "../../../cli/connector/start_options.ts";
import { proven } from "../connector/store/disk.ts";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { RunningConnector } from "../../../cli/connector/agent_connector.ts";
import { didWhat } from "../../../cli/connector/talk/log_text.ts";
import { messageLines } from "../../../cli/messages/received.ts";
import { columnsOf } from "../../../cli/terminal/text_width.ts";
import type { LocalMessage } from "../../../shared/client/local_shapes.ts";
import type { TakenMessage } from "../../../cli/connector/store/received_messages.ts";
import { localMessage } from "../../support/local_message.ts";
import { until } from "../../support/until.ts";
import { PROXY_URL, REGISTRY_URL } from "../../support/world.ts";
import { whileTimePasses } from "../alpha.ts";
import type { Machine } from "../cli_world.ts";
import { connectorOfAlpha } from "../connector/local_machine.ts";
import { assertDelivered, type PlaceWithBeta, withBeta } from "./with_beta.ts";

const RAW = ["\u001b", "\u0007", "\r", "\u009b", "\u202e"];
const HOSTILE = `first\r\n17  now  beta\n\u001b[2J\u0007\u009b31m\u202eend\tof it`;

/** Printed without a link, because an empty list alone would look as if nothing waits at the server. */
const APART = `warning: New messages may wait at the server, because ${PROXY_URL} cannot be reached\n`;
const NOTHING = `${APART}No unread messages.\n`;

interface Place extends PlaceWithBeta {
  running: RunningConnector;
  /** Stores a message of beta as the link does. Returns its ID. */
  receive(payload: unknown, more?: Partial<TakenMessage>): number;
}

/** Runs a test with alpha's connector on the platform `inbox`, and the connected peer beta. */
const withInbox = (test: (place: Place) => Promise<void>, options: Partial<StartOptions> = { inbox: true }) =>
  withBeta(async (place) => {
    const { world, machine, beta } = place;
    await machine.json("peers");
    await using running = await connectorOfAlpha(world, machine, options);
    await until(() => running.connector.status().connection.problem !== null);
    const { did: agentDid, name, currentJti: aitJti } = beta.agent;
    const identity = { agentDid, ownerDid: beta.owner.did, issuer: REGISTRY_URL, aitJti, name };
    let count = 0;
    const receive = (payload: unknown, more: Partial<TakenMessage> = {}) => {
      const text = typeof payload === "string" ? payload : JSON.stringify(payload);
      const { did: toAgentDid } = running.connector.options.agent;
      const ids = { fromAgentDid: agentDid, requestId: `message-${++count}`, toAgentDid };
      const { received } = running.connector.store;
      const [result] = received.take([{ ...ids, identity, ...proven(), payload: text, ...more }], world.clock.now());
      assertEquals(result, "stored");
      return received.waiting().at(-1)?.seq ?? 0;
    };
    await test({ ...place, running, receive });
  });

async function unread(machine: Machine, ...options: string[]): Promise<number[]> {
  const { messages } = await machine.json("inbox", ...options);
  return messages.map(({ id }: { id: number }) => id);
}

Deno.test("agent delete says in its question how many unread messages it deletes", () =>
  withInbox(async ({ machine, receive }) => {
    machine.answers = false;
    await machine.svc("agent", "delete", "alpha");
    for (const message of ["one", "two"]) receive({ message });
    await machine.svc("agent", "delete", "alpha");
    const [start, end] = ["Revoke alpha permanently?", "This cannot be undone."];
    const unread = "Its unread messages on this machine are deleted too: 2.";
    assertEquals(machine.asked, [`${start} ${end}`, `${start} ${unread} ${end}`]);
  }));

Deno.test("svc inbox lists unread messages with number, time, alias and text, and changes nothing", () =>
  withInbox(async ({ machine, receive, world }) => {
    const empty = await machine.svc("inbox");
    assertEquals(empty, { code: 0, stdout: "", stderr: NOTHING });
    const [a, b, c] = [
      receive({ message: "Hello\nalpha" }),
      receive([1, { n: 2 }]),
      receive({ message: "x" }, { auto: true }),
    ];
    const time = new Date(world.clock.now()).toISOString();
    const head = (id: number) => `${id}  ${time}  beta  readable by the server`;
    const lines = [head(a), "    Hello", "    alpha", head(b), '    [1,{"n":2}]'];
    for (const _ of [1, 2]) {
      const { code, stdout, stderr } = await machine.svc("inbox");
      assertEquals([code, stderr], [0, APART]);
      assertEquals(stdout.split("\n"), [...lines, `${head(c)}  automatic`, "    x", ""]);
    }
    assertEquals(await unread(machine), [a, b, c]);
  }));

Deno.test("svc inbox filters by peer and conversation, and lists at most as many messages as wanted", () =>
  withInbox(async ({ machine, receive, beta, world }) => {
    const other = await world.agent(undefined, "other");
    const [a, b] = [receive({ message: "a" }, { conversationId: "c-1" }), receive({ message: "b" })];
    const c = receive({ message: "c" }, { fromAgentDid: other.agent.did });
    assertEquals(await unread(machine, "--from", "beta"), [a, b]);
    assertEquals(await unread(machine, "--from", beta.agent.did, "--conversation", "c-1"), [a]);
    assertEquals(await unread(machine, "--limit", "2"), [a, b]);
    const { more } = await machine.json("inbox", "--limit", "2");
    assertEquals(more, true);
    assertStringIncludes(
      (await machine.svc("inbox")).stdout,
      `${c}  ${new Date(world.clock.now()).toISOString()}  did:`,
    );
    assertStringIncludes((await machine.svc("inbox", "--limit", "1")).stderr, "more messages");
    assertEquals((await machine.failure("inbox", "--from", "nobody")).exit, 4);
    for (const wrong of [["--limit", "0"], ["--limit", "201"], ["--read", "--take"], ["--read", "--follow"]]) {
      assertEquals((await machine.failure("inbox", ...wrong)).exit, 2);
    }
  }));

Deno.test("svc inbox --take marks what it has printed, which --read then lists", () =>
  withInbox(async ({ machine, receive, world }) => {
    const ids = [receive({ message: "a" }), receive({ message: "b" })];
    assertEquals(await unread(machine, "--take", "--limit", "1"), ids.slice(0, 1));
    assertEquals(await unread(machine), ids.slice(1));
    assertEquals(await unread(machine, "--read"), ids.slice(0, 1));
    receive({ message: "c" });
    assertEquals((await whileTimePasses(world, machine.svc("inbox", "--take"))).code, 0);
    assertEquals([await unread(machine), (await unread(machine, "--read")).slice(0, 2)], [[], ids]);
    assertEquals((await machine.svc("inbox", "--take")).stderr, NOTHING);
  }));

Deno.test("svc inbox --follow shows a message that another program gives back after a later one was shown", () =>
  withInbox(async ({ machine, receive, running, world }) => {
    const { received } = running.connector.store, first = receive({ message: "a" });
    received.lease([first], { id: "other", until: world.clock.now() + 20_000 }, world.clock.now());
    receive({ message: "b" });
    const following = machine.svc("inbox", "--follow", "--take");
    await whileTimePasses(world, until(() => received.counts().waiting === 1));
    received.release([first], "other");
    // It looks for earlier messages once a minute, which in small steps would take a busy machine half a minute, too.
    await whileTimePasses(world, until(() => received.counts().waiting === 0), 500);
    machine.readsCharacters = 0;
    receive({ message: "c" });
    await whileTimePasses(world, following);
  }));

Deno.test("svc inbox --follow runs the program of --exec only for the messages that it shows", () =>
  withInbox(async ({ machine, receive, world }) => {
    const ran: string[] = [];
    const run = (_program: string, { SVC_MESSAGE_ID: id = "" }) => Promise.resolve(ran.push(id) * 0);
    machine.exec = { isAllowed: () => Promise.resolve(true), run };
    const other = await world.agent(undefined, "other");
    const [a] = [receive({ message: "a" }, { conversationId: "c-1" }), receive({ message: "b" })];
    receive({ message: "c" }, { fromAgentDid: other.agent.did, conversationId: "c-1" });
    const which = ["--from", "beta", "--conversation", "c-1"];
    const following = machine.svc("inbox", "--follow", "--exec", Deno.execPath(), ...which);
    await whileTimePasses(world, until(() => ran.length > 0));
    machine.readsCharacters = 0;
    const d = receive({ message: "d" }, { conversationId: "c-1" });
    await whileTimePasses(world, following);
    assertEquals(ran.filter((id) => id !== String(d)), [String(a)]);
  }));

Deno.test("svc inbox --take prints no message that another program takes at the same time, because both would act on it", () =>
  withInbox(async ({ machine, receive, running, world }) => {
    const ids = [receive({ message: "a" }), receive({ message: "b" }), receive({ message: "c" })];
    const { received: inbox } = running.connector.store;
    const list = inbox.list.bind(inbox);
    inbox.list = (filter) => {
      const page = list(filter), now = world.clock.now();
      inbox.lease(ids.slice(1, 2), { id: "another-program", until: now + 60_000 }, now);
      return page;
    };
    const { stdout, stderr } = await machine.svc("inbox", "--take", "--json");
    assertEquals(JSON.parse(stdout).messages.map(({ id }: LocalMessage) => id), [ids[0], ids[2]]);
    assertEquals(stderr, "");
    assertEquals(inbox.release(ids, "another-program"), ids.slice(1, 2));
  }));

Deno.test("svc inbox says how many messages a program holds that may have been killed", () =>
  withInbox(async ({ machine, receive, running, world }) => {
    const ids = [receive({ message: "a" }), receive({ message: "b" })], now = world.clock.now();
    running.connector.store.received.lease(ids, { id: "another-program", until: now + 20_000 }, now);
    const { stderr } = await machine.svc("inbox");
    assertStringIncludes(stderr, "No unread messages, except 2 that others take now, or give back within 120 s.\n");
  }));

Deno.test("svc inbox --take --json names messages that another program has read while its own reader was slow", () =>
  withInbox(async ({ machine, receive, running, world }) => {
    const id = receive({ message: "a" });
    const { received: inbox } = running.connector.store;
    const lease = inbox.lease.bind(inbox);
    inbox.lease = (...args) => {
      const held = lease(...args);
      world.clock.step(60_000);
      inbox.markRead([id], world.clock.now());
      return held;
    };
    const { code, stdout, stderr } = await machine.svc("inbox", "--take", "--json");
    assertEquals([code, JSON.parse(stdout).messages.length], [0, 1]);
    assertEquals(JSON.parse(stderr), { warnings: [`Another program has read ${id} at the same time`] });
  }));

Deno.test("svc inbox --take marks nothing that its reader did not get", () =>
  withInbox(async ({ machine, receive, world }) => {
    const ids = [receive({ message: "a" }), receive({ message: "b" }), receive({ message: "c" })];
    machine.readsCharacters = 0;
    for (const options of [[], ["--json"], ["--follow"], ["--follow", "--json"]]) {
      assertEquals((await machine.svc("inbox", "--take", ...options)).code, 0);
    }
    machine.readsCharacters = Infinity;
    assertEquals(await unread(machine), ids);
    // The pipe takes two messages, of which the reader gets a part and then ends.
    const printed = machine.svc("inbox", "--take");
    await until(() => world.clock.pending().includes("+200 ms"));
    machine.readsCharacters = 0;
    const { code, stderr } = await whileTimePasses(world, printed);
    assertEquals(code, 0);
    assertStringIncludes(stderr, "warning: Nothing was marked read");
    machine.readsCharacters = Infinity;
    assertEquals(await unread(machine), ids);
  }));

Deno.test("no control character of a peer reaches the terminal, and its text cannot look like another message", () =>
  withInbox(async ({ machine, receive, world }) => {
    receive({ message: HOSTILE });
    receive({ other: HOSTILE });
    receive(`{\r\n"raw": "\u009b\u202e" }`);
    for (const options of [[], ["--json"], ["--take"]]) {
      const { stdout, stderr } = await whileTimePasses(world, machine.svc("inbox", ...options));
      for (const char of RAW) assert(!(stdout + stderr).includes(char), JSON.stringify(char));
      assert(stdout.split("\n").every((line) => !/^17 /.test(line)), stdout);
    }
    const { stdout } = await machine.svc("inbox", "--read");
    assertStringIncludes(stdout, "    \\u001b[2J\\u0007\\u009b31m\\u{202e}end\tof it\n");
  }));

Deno.test("a message says whether it came end-to-end, and of a contact that the server could read it", () => {
  const headOf = (verified: LocalMessage["verified"]) =>
    messageLines({ message: localMessage("request-1", { verified }), json: "{}" }, null, 0)[0] ?? "";
  assertStringIncludes(headOf("end-to-end"), "  end-to-end");
  assertStringIncludes(headOf("by-registry"), "  readable by the server");
  const said = { error: null, auto: false, isReply: false };
  assertEquals(didWhat({ ...said, verified: "end-to-end" }), "asks");
  assertEquals(didWhat({ ...said, verified: "by-registry" }), "asks (readable by the server)");
});

Deno.test("a long line of a peer does not reach the first column of a terminal", () => {
  const forged = "17  2026-01-01T00:00:00.000Z  boss";
  for (const text of [`${" ".repeat(76)}${forged}`, "漢".repeat(99), `\t${"\u001b".repeat(99)}`, forged.repeat(9)]) {
    const message = localMessage("request-1", { text });
    const [, ...content] = messageLines({ message, json: "{}" }, 80, 0);
    const bare = (text: string) => text.replaceAll(" ", "");
    assertEquals(bare(content.join("")), bare(text.replaceAll("\u001b", "\\u001b")));
    const widthOf = (line: string) => [...line].reduce((sum, one) => sum + (one === "\t" ? 8 : columnsOf(one)), 0);
    for (const line of content) assert(line.startsWith("    ") && widthOf(line) < 80, line);
    // A program gets the lines as they are.
    assertEquals(messageLines({ message, json: "{}" }, null, 0).length, 2);
  }
});

Deno.test("a payload comes back byte for byte in JSON, also one that is nested deeply", () =>
  withInbox(async ({ machine, receive }) => {
    const exact = '{"n":12345678901234567890,"f":1.10,"message":"\\u0041"}';
    const deep = "[".repeat(50_000) + "]".repeat(50_000);
    receive(exact);
    receive(deep);
    const { stdout } = await machine.svc("inbox", "--json");
    assertStringIncludes(stdout, `"payload":${exact}}`);
    assertStringIncludes(stdout, `"payload":${deep}}`);
    assertEquals(JSON.parse(stdout).messages.length, 2);
    assertEquals((await machine.svc("inbox")).stdout.includes(`    ${deep}\n`), true);
  }));

Deno.test("svc inbox says why it cannot read messages that go to a runtime", () =>
  withInbox(async ({ machine }) => {
    await machine.refuses(["inbox"], 1, "CONNECTOR_RUNTIME_PUSHES", "svc install --for inbox");
  }, { "hook-path": "/in" }));

Deno.test("svc send goes through the connector that runs, which knows the message afterwards", () =>
  withInbox(async ({ machine, beta, socket }) => {
    machine.requests.length = 0;
    const payload = '{"n":12345678901234567890}';
    assertDelivered(await machine.json("send", "beta", "--data", payload, "--request-id", "request-1"), beta);
    assertEquals(socket.delivered[0]?.payload, payload);
    assert(machine.requests.some((request) => request.startsWith("POST /v1/outbound")));
    assertEquals(
      (await machine.svc("send", "beta", "x", "--request-id", "request-2")).stderr,
      "Sent to beta: arrived (request-2)\n",
    );
    socket.behaviour = "nack";
    assertEquals((await machine.svc("send", "beta", "x", "--request-id", "request-3")).code, 1);
    const { messages } = await machine.json("sent");
    const states = messages.map(({ requestId, state }: Record<string, string>) => [requestId, state]);
    assertEquals(states, [["request-3", "refused"], ["request-2", "delivered"], ["request-1", "delivered"]]);
    assertEquals((await machine.json("sent", "--to", "beta", "--limit", "1")).more, true);
    const one = await machine.json("sent", "request-1");
    assertEquals([one.state, one.reply, one.receipts], ["delivered", null, []]);
    assertEquals((await machine.svc("sent")).stdout.split("\n")[0]?.split(/ {2,}/)[1], "TO");
    const { code, stderr } = await machine.svc("sent", "request-2", "--cancel");
    assertEquals([code, stderr], [1, "Not cancelled: request-2: arrived\n"]);
    for (const argv of [["sent", "request-9"], ["send", "nobody", "x"], ["sent", "request-1", "--to", "nobody"]]) {
      assertEquals((await machine.failure(...argv)).exit, 4, argv.join(" "));
    }
  }));

Deno.test("svc sent shows state and reply, with a warning, while the proxy cannot be reached", () =>
  withInbox(async ({ machine, beta, receive }) => {
    await machine.json("send", "beta", "How many?", "--request-id", "request-1");
    receive({ message: "Two" }, { inReplyTo: "request-1" });
    machine.answer(new RegExp(PROXY_URL), () => Promise.reject(new TypeError("refused")));
    const { state, to, receipts, reply, warnings } = await machine.json("sent", "request-1");
    assertEquals([state, to, receipts, reply.text], ["processed", beta.agent.did, null, "Two"]);
    assertStringIncludes(warnings[0], "receipts could not be requested: CONNECTOR_PROXY_UNREACHABLE");
    const { code, stdout, stderr } = await machine.svc("sent", "request-1");
    assertEquals([code, stdout.includes("    Two")], [0, true]);
    assertStringIncludes(stderr, "warning: The receipts could not be requested");
  }));

Deno.test("svc send --wait prints the reply to standard output and marks it read", () =>
  withInbox(async ({ machine, running, socket, receive }) => {
    const asking = machine.svc("send", "beta", "--wait", "How many?");
    await until(() => socket.delivered.length === 1);
    const { requestId = "" } = socket.delivered[0] ?? {};
    receive({ message: "unrelated" });
    receive({ message: "Two\n\u001b[2Jthree" }, { inReplyTo: requestId });
    assertEquals(await asking, { code: 0, stdout: "Two\n\\u001b[2Jthree\n", stderr: "" });
    assertEquals((await unread(machine)).length, 1);
    assertEquals(running.connector.store.sent.find(requestId)?.state, "processed");
    const { stdout } = await machine.svc("sent", requestId);
    for (const part of [`${requestId} to beta`, "read", `reply to ${requestId}`, "    Two"]) {
      assertStringIncludes(stdout, part);
    }

    const again = machine.svc("send", "beta", "--wait", "JSON?", "--json");
    await until(() => socket.delivered.length === 2);
    receive('{"n":12345678901234567890}', { inReplyTo: socket.delivered[1]?.requestId ?? "" });
    const { code, stdout: json } = await again;
    assertEquals([code, JSON.parse(json).reply.isReply], [0, true]);
    assertStringIncludes(json, '"payload":{"n":12345678901234567890}}}');
    assertEquals((await unread(machine)).length, 1);
  }));

Deno.test("svc send --wait exits with 1 when the peer says that it has no answer, and prints no answer", () =>
  withInbox(async ({ machine, socket, receive }) => {
    const ask = async (n: number, ...options: string[]) => {
      const asking = machine.svc("send", "beta", "--wait", "How many?", ...options);
      await until(() => socket.delivered.length === n);
      const svcError = { code: "TASK_FAILED", message: "out of\u001b[2J memory" };
      receive({ message: "out of memory", svcError }, { inReplyTo: socket.delivered[n - 1]?.requestId ?? "" });
      return await asking;
    };
    const why = "beta could not answer: TASK_FAILED: out of\\u001b[2J memory\n";
    assertEquals(await ask(1), { code: 1, stdout: "", stderr: why });
    assertEquals(await unread(machine), [], "it was shown");
    const { code, stdout, stderr } = await ask(2, "--json");
    assertEquals([code, stderr, JSON.parse(stdout).reply.error.code], [1, "", "TASK_FAILED"]);
    assertStringIncludes(
      (await machine.svc("inbox", "--read")).stdout,
      "  no answer, TASK_FAILED\n    out of memory\n",
    );
  }));

Deno.test("svc send --wait gets the reply also when messages go to a runtime, which does not get it then", () =>
  withInbox(async ({ machine, running, socket, receive }) => {
    const asking = machine.svc("send", "beta", "--wait", "x");
    await until(() => socket.delivered.length === 1);
    receive({ message: "y" }, { inReplyTo: socket.delivered[0]?.requestId ?? "" });
    assertEquals(await asking, { code: 0, stdout: "y\n", stderr: "" });
    assertEquals(running.connector.status().inbox.waiting, 0);
  }, { "hook-path": "/in" }));

Deno.test("a reply that the reader did not get stays unread", () =>
  withInbox(async ({ world, machine, socket, receive }) => {
    machine.readsCharacters = 0;
    const asking = machine.svc("send", "beta", "--wait", "x");
    await until(() => socket.delivered.length === 1);
    const id = receive({ message: "y" }, { inReplyTo: socket.delivered[0]?.requestId ?? "" });
    assertEquals((await asking).code, 0);
    machine.readsCharacters = Infinity;
    // Until then the command could still mark it as read.
    world.clock.step(2_000);
    assertEquals(await unread(machine), [id]);
  }));

Deno.test("svc send --wait exits with 6 and the state when no reply comes in time", () =>
  withInbox(async ({ world, machine }) => {
    const ask = (...options: string[]) =>
      whileTimePasses(world, machine.svc("send", "beta", "--wait", "x", "--timeout", "5", ...options));
    const { code, stdout, stderr } = await ask("--request-id", "request-1");
    assertEquals([code, stdout], [6, ""]);
    const what = `No reply of beta came within 5 s; request-1: arrived, and ${PROXY_URL} cannot be reached.`;
    assertStringIncludes(stderr, `CLI_NO_REPLY: ${what}`);
    const json = await ask("--json");
    assertEquals([json.code, JSON.parse(json.stdout).state], [6, "delivered"]);
    assertEquals(JSON.parse(json.stderr).error.code, "CLI_NO_REPLY");
    machine.answer(/hooks\/agent/, () => {
      throw new TypeError("connection refused");
    });
    const kept = (await ask("--request-id", "request-2")).stderr.split("No reply")[1] ?? "";
    assertEquals(kept.split("cannot be reached").length, 2, `the reason is said once: ${kept}`);
  }));

Deno.test("svc send --wait says without a reply in time that a later one goes to the runtime, where there is one", () =>
  withInbox(async ({ world, machine }) => {
    const { stderr } = await whileTimePasses(world, machine.svc("send", "beta", "--wait", "x", "--timeout", "5"));
    assertEquals([stderr.includes("a later reply goes to the runtime of alpha."), stderr.includes("svc inbox")], [
      true,
      false,
    ]);
  }, { "hook-path": "/in" }));

Deno.test("svc send --wait says at once where the message waits, and prints the reply that comes later", () =>
  withInbox(async ({ world, machine, running, socket, receive }) => {
    socket.link.end(1000, "over");
    const asking = machine.svc("send", "beta", "--wait", "x", "--request-id", "request-1");
    await until(() => running.connector.store.sent.find("request-1")?.state === "queued");
    const began = world.clock.now();
    await whileTimePasses(world, until(() => world.clock.now() - began > 2_000));
    receive({ message: "y" }, { inReplyTo: "request-1" });
    const stderr = "The message waits at the server until beta takes it.\n";
    assertEquals(await whileTimePasses(world, asking), { code: 0, stdout: "y\n", stderr });
  }));

Deno.test("svc send --wait exits with 1 as soon as the peer does not accept the message", () =>
  withInbox(async ({ machine, socket }) => {
    socket.behaviour = "nack";
    const { code, stdout, stderr } = await machine.svc("send", "beta", "--wait", "x", "--request-id", "request-1");
    assertEquals([code, stdout, stderr], [1, "", "Sent to beta: refused: payload_invalid (request-1)\n"]);
  }));

Deno.test("svc send --wait exits with 1 when the message becomes a dead letter", () =>
  withInbox(async ({ world, machine, beta, socket }) => {
    const asking = machine.svc("send", "beta", "--wait", "x", "--request-id", "request-1");
    await until(() => socket.delivered.length === 1);
    await beta.client.submitReceipt({
      requestId: "request-1",
      recipientAgentDid: beta.agent.did,
      senderAgentDid: socket.delivered[0]?.fromAgentDid ?? "",
      status: "dead_lettered",
      timestamp: new Date(world.clock.now()).toISOString(),
    });
    const { code, stdout, stderr } = await whileTimePasses(world, asking);
    assertEquals([code, stdout, stderr], [1, "", "Sent to beta: not delivered (request-1)\n"]);
  }));

Deno.test("svc reply answers a message in its conversation, and marks it read", () =>
  withInbox(async ({ machine, socket, receive }) => {
    const id = receive({ message: "How many?" }, { conversationId: "c-1", requestId: "question-1" });
    const { code, stdout, stderr } = await machine.svc("reply", `${id}`, "Two");
    const [frame] = socket.delivered;
    assertEquals([code, stdout, stderr], [0, "", `Sent to beta: arrived (${frame?.requestId})\n`]);
    assertEquals([frame?.inReplyTo, frame?.conversationId], ["question-1", "c-1"]);
    assertEquals([await unread(machine), await unread(machine, "--read")], [[], [id]]);
    await machine.refuses(["reply", "999", "x"], 4, "CONNECTOR_MESSAGE_UNKNOWN");
    const first = "The number comes first, as svc inbox shows it: svc reply 17 'hi back'";
    const message = await machine.refuses(["reply", "hi back"], 2, "CLI_USAGE");
    assertEquals(message, `"hi back" is not the number of a message. ${first}`);
    for (const wrong of ["0", "x", "1.5"]) assertEquals((await machine.failure("reply", wrong, "x")).exit, 2);

    socket.behaviour = "nack";
    const other = receive({ message: "again?" });
    assertEquals((await machine.svc("reply", `${other}`, "x")).code, 1);
    assertEquals(await unread(machine), [other]);
  }));
