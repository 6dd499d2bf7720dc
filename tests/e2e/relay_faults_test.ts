/**
 * The relay under faults (D-67, D-70): connections that end without a close frame, fragments without end, and many senders
 * at once. What ends by a time limit is in `tests/soak/relay_time_limits_test.ts`, because it takes real minutes.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { Connector, type LiveAgent, messageTo, pair, PATIENT, Service, SOON_MS, within } from "../support/process.ts";
import { BareConnector, codeOf, CONNECT, OPCODE, RawSocket, upgradeLines } from "../support/raw_http.ts";
import { IS_LONG, longTest } from "../support/trials.ts";
import { ulid } from "ulid";
import { outcome } from "./harness.ts";

/** Messages of each sender at once. */
const EACH = IS_LONG ? 50 : 10;
const ALL = 10 * EACH;

Deno.test(`of ${ALL} concurrent messages of 10 senders each 202 is one ack, and each arrives once`, async () => {
  await using service = await Service.open(PATIENT);
  const recipients = await Promise.all(Array.from({ length: 5 }, (_, i) => service.agent(`recipient-${i}`)));
  const senders = await Promise.all(Array.from({ length: 10 }, (_, i) => service.agent(`sender-${i}`)));
  // Each sender has two of the recipients as peers.
  const knows = (i: number): LiveAgent[] => [recipients[i % 5], recipients[(i + 1) % 5]] as LiveAgent[];
  for (const [i, sender] of senders.entries()) for (const recipient of knows(i)) await pair(sender, recipient);
  let acks = 0;
  const connectors = await Promise.all(
    recipients.map((recipient, i) =>
      Connector.open(service.place, recipient, async () => {
        await new Promise((resolve) => setTimeout(resolve, i));
        acks++;
        return { accepted: true };
      })
    ),
  );
  const answers = await Promise.all(
    senders.flatMap((sender, i) =>
      Array.from(
        { length: EACH },
        (_, n) => sendUntilTaken(sender, messageTo(knows(i)[n % 2] as LiveAgent, `${n} of ${i}`)),
      )
    ),
  );
  assertEquals(answers.filter((answer) => answer === "202 true").length, ALL, [...new Set(answers)].join());
  const frames = connectors.flatMap((connector) => connector.frames);
  assertEquals([acks, frames.length], [ALL, ALL]);
  for (const member of ["id", "requestId"] as const) {
    assertEquals(new Set(frames.map((frame) => frame[member])).size, ALL, member);
  }
  for (const [i, connector] of connectors.entries()) {
    for (const { fromAgentDid, toAgentDid } of connector.frames) {
      assertEquals(toAgentDid, recipients[i]?.identity.did);
      const from = senders.findIndex(({ identity }) => identity.did === fromAgentDid);
      assert(knows(from).some(({ identity }) => identity.did === toAgentDid), "only within a pair");
    }
    await connector.close();
  }
});

/** Sends a message again while the server is too busy, as every client does: one that other work slows down is. */
async function sendUntilTaken({ client }: LiveAgent, message: ReturnType<typeof messageTo>): Promise<string> {
  const requestId = ulid();
  for (;;) {
    const answer = await outcome(client.sendMessage({ ...message, requestId }));
    if (!answer.startsWith("503 ")) return answer;
  }
}

/** Sends fragments of one message until the server ends the connection. Returns how many went out. */
async function sendFragments({ socket }: BareConnector, bytes = 1_048_576): Promise<number> {
  const fragment = new Uint8Array(bytes).fill(120);
  for (let sent = 0;; sent++) {
    if (!await socket.send(sent === 0 ? OPCODE.text : OPCODE.continuation, fragment, false)) return sent;
    // About 100 MB a second, unless the machine is slower.
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

longTest(
  "a message without an end is ended with its connection, its owner waits, and no other agent notices",
  async () => {
    await using service = await Service.open();
    const { a, b } = await service.agents();
    const stranger = await service.agent("stranger", await service.person());
    const honest = await service.connect(b);
    await using bare = await BareConnector.open(service.url, stranger);
    let isOver = false;
    const sending = sendFragments(bare).finally(() => isOver = true);
    do assertEquals(await outcome(a.client.sendMessage(messageTo(b))), "202 true"); while (!isOver);
    const sent = await within(SOON_MS, "the end of the connection", sending);
    assert(sent >= 64, `ended after ${sent} MiB, before it was noticed`);
    const again = await RawSocket.open(service.url, CONNECT, await upgradeLines(service.url, stranger));
    assert(!(again instanceof RawSocket));
    assertEquals([again.status, codeOf(again)], [429, "PROXY_RATE_LIMIT_EXCEEDED"]);
    assert(Number(again.headers.get("retry-after")) > 30);
    assertEquals(await outcome(a.client.sendMessage(messageTo(b))), "202 true");
    assertMatch(service.server.stderr.text, /"memory_guard"/);
    await honest.close();
  },
);

Deno.test("a peer that goes on after its connection was closed has it ended within seconds", async () => {
  await using service = await Service.open({ MEMORY_GUARD: String(2 ** 40) });
  const { a } = await service.agents();
  await using bare = await BareConnector.open(service.url, a);
  bare.socket.answersClose = false;
  // Slow enough that the memory guard has no reason to look.
  const sending = sendFragments(bare, 65_536);
  await using newer = new AsyncDisposableStack();
  for (let i = 0; i < 4; i++) newer.use(await BareConnector.open(service.url, a));
  await within(SOON_MS, "the end of the replaced connection", sending);
});
