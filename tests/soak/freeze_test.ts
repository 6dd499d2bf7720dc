/**
 * An instance that is frozen, as by a pause of its machine, while others answer for its agents: what they answered
 * meanwhile as queued is delivered from the mailbox alone.
 */
import { assert, assertEquals } from "@std/assert";
import { findDenokv } from "../support/denokv.ts";
import { eventually, newId, pair, tempFolder } from "../support/process.ts";
import { type ChaosAgent, World } from "./chaos/clients.ts";
import { Cluster } from "./chaos/cluster.ts";
import { areConnected, pause, receivedIn, register } from "./chaos/fleet.ts";
import type { Fact } from "./chaos/history.ts";
import { INSTANCES } from "./chaos/plan.ts";

const denokv = await findDenokv();

const AGENTS = 12;
/** The instance that is frozen; its agents receive, and those of the others send. */
const FROZEN = INSTANCES - 1;
/** Longer than the wait for a message (10.5 s) and than a lease (12 s): the others then take its agents as offline. */
const FROZEN_MS = 15_000;
const BETWEEN_MS = 150;
const REPEAT_MS = 500;

/** Messages with a frame after their 202 that it did not announce: one frame follows "queued", and none "delivered". */
function afterAnswer(history: readonly Fact[]): string[] {
  const messageOf = new Map(history.flatMap((fact) => fact.kind === "sent" ? [[fact.request, fact.message]] : []));
  const announced = new Map<string, number>();
  const late: string[] = [];
  for (const fact of history) {
    if (fact.kind === "answered" && (fact.as === "delivered" || fact.as === "queued")) {
      announced.set(messageOf.get(fact.request) ?? "", fact.as === "queued" ? 1 : 0);
    } else if (fact.kind === "received") {
      const left = announced.get(fact.message);
      if (left === 0) late.push(fact.message);
      if (left) announced.set(fact.message, left - 1);
    }
  }
  return late;
}

Deno.test({
  name: "an instance that was frozen for 15 s delivers nothing that was answered meanwhile",
  ignore: denokv === null,
  async fn() {
    await using folder = await tempFolder();
    await using cluster = await Cluster.open(denokv ?? "", folder.path);
    const world = new World(cluster);
    const agents = await register(world, AGENTS);
    const isReceiver = ({ number }: ChaosAgent) => number % INSTANCES === FROZEN;
    const receivers = agents.filter(isReceiver), senders = agents.filter((agent) => !isReceiver(agent));
    const peerOf = (i: number) => receivers[i % receivers.length] as ChaosAgent;
    for (const [i, sender] of senders.entries()) await pair(sender.live, peerOf(i).live);
    for (const agent of agents) agent.connect();
    await eventually(20_000, "every agent is connected", () => areConnected(agents));

    let isOver = false;
    const accepted = new Set<string>();
    /** Sends until there is a 202, each time with the same request ID, to one of the instances that run. */
    const insist = async (sender: ChaosAgent, i: number, message: string) => {
      for (let n = sender.number;; n++) {
        const answer = await sender.send(peerOf(i), message, true, n % FROZEN);
        if (answer === "delivered" || answer === "queued") return void accepted.add(message);
        await pause(REPEAT_MS);
      }
    };
    const loads = senders.map(async (sender, i) => {
      const open: Promise<void>[] = [];
      for (; !isOver; await pause(BETWEEN_MS)) open.push(insist(sender, i, newId()));
      await Promise.all(open);
    });
    await pause(2_000);
    cluster.freeze(FROZEN);
    await pause(FROZEN_MS);
    const answered = accepted.size;
    cluster.thaw(FROZEN);
    await pause(3_000);
    isOver = true;
    await Promise.all(loads);
    await eventually(30_000, "every message arrives", () => {
      const received = new Set(receivedIn(world.history));
      return [...accepted].every((message) => received.has(message)) || undefined;
    });
    const late = afterAnswer(world.history);
    const queued = world.history.filter((fact) => fact.kind === "answered" && fact.as === "queued").length;
    console.log(
      `${accepted.size} messages, ${queued} queued, ${answered} accepted before the thaw; ` +
        `${late.length} frames too many after a 202`,
    );
    assert(queued > 0, "some messages were queued while the instance was frozen");
    assertEquals(late, []);
    for (const agent of agents) await agent.stop();
  },
});
