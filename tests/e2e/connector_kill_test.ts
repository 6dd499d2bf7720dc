/**
 * kill -9 of the connector at any moment (D-88): every message is handed to the runtime at least once, exactly once
 * when the runtime answered before the kill, and ends in a receipt. One trial; more with `-- --trials n`, and then also the
 * compiled binary, a quarter as often.
 */
import { assert, assertEquals } from "@std/assert";
import { ApiError } from "../support/agent_client.ts";
import { Listener, RunningConnector } from "../cli/connector/people.ts";
import { programs } from "../cli/program.ts";
import { trials } from "../support/trials.ts";
import { eventually, newId, Service } from "../support/process.ts";
import { pairedAgents } from "./harness.ts";

const BURST = 8;
/** An answer in transit during the kill may not have been received, let alone stored. */
const UNSEEN_MS = 2_000;

for (const program of await programs()) {
  const TRIALS = Math.ceil(trials(1) / (program.name === "compiled" ? 4 : 1));

  Deno.test(`a connector killed ${TRIALS} times loses no message and repeats no answered one (${program.name})`, async () => {
    await using service = await Service.here();
    const dir = `${service.home}/b`;
    const { a, b } = await pairedAgents(service, dir);
    await using runtime = new Listener();
    runtime.answer = async () => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 40));
      return 200;
    };

    /** A sender repeats the same ID until it is accepted. */
    const send = async (requestId: string, n: number) => {
      const message = { recipientDid: b.agent.did, payload: JSON.stringify({ message: `${n}` }), requestId };
      const more = { conversationId: `c${n % 4}`, prefer: "respond-async" } as const;
      await eventually(30_000, `message ${n} is accepted`, async () => {
        try {
          return (await a.client.sendMessage({ ...message, ...more })).accepted;
        } catch (error) {
          if (error instanceof ApiError && error.status >= 500) return undefined;
          throw error;
        }
      });
    };

    const kills: number[] = [];
    const sent: string[] = [];
    const printed: string[] = [];
    const start = () => RunningConnector.start(dir, "b", ["--runtime-base-url", runtime.url], { program });
    let connector = await start();
    try {
      for (let trial = 0; trial < TRIALS; trial++) {
        const ids = Array.from({ length: BURST }, () => newId());
        const sending = ids.map((id, n) => send(id, n));
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 150));
        connector.child.signal("SIGKILL");
        kills.push(Date.now());
        await connector.child.status;
        printed.push(connector.child.stdout.text);
        connector = await start();
        await Promise.all(sending);
        sent.push(...ids);
      }
      const statuses: string[] = [], open = new Set(sent);
      await eventually(120_000, "every message has its receipt", async () => {
        for (const id of open) {
          const { receipts } = await a.client.receipts(id, b.agent.did);
          if (receipts.length === 0) return undefined;
          statuses.push(...receipts.map(({ status }) => status));
          open.delete(id);
        }
        return true;
      });
      assertEquals(new Set(statuses), new Set(["processed_by_svc"]));
    } finally {
      await connector[Symbol.asyncDispose]();
      printed.push(connector.child.stdout.text);
    }

    const byId = Map.groupBy(runtime.received, ({ headers }) => headers.get("x-request-id") ?? "");
    assertEquals(sent.filter((id) => !byId.has(id)), [], "every message was handed over");
    let repeats = 0;
    for (const [id, calls] of byId) {
      const finished = printed.flatMap((text) => text.split("\n"))
        .filter((line) => line.includes('"event":"handed_over"') && line.includes(id));
      assert(finished.length <= 1, `recorded as handed over, and handed over again: ${finished.join("\n")}`);
      assertEquals(new Set(calls.map(({ key }) => key)).size, 1, "the runtime can recognise a duplicate");
      for (const [i, call] of calls.entries()) {
        if (i === 0) continue;
        repeats++;
        const before = calls[i - 1];
        const wasUnseen = kills.some((kill) =>
          kill >= (before?.at ?? 0) - UNSEEN_MS && kill <= call.at &&
          (before?.answeredAt ?? Infinity) > kill - UNSEEN_MS
        );
        const times = calls.map((one) => `at ${one.at}, answered ${one.answeredAt}`).join("; ");
        const lines = printed.flatMap((text) => text.split("\n").filter((line) => line.includes(id))).join("\n");
        assert(wasUnseen, `handed over again although answered: ${times}; kills ${kills.join(", ")}\n${lines}`);
      }
    }
    console.log(`${TRIALS} kills, ${sent.length} messages, each with a receipt; ${repeats} handed over twice`);
  });
}
