/**
 * What one account can cost the others (docs/security.md#what-one-person-can-cost): a hundred agents do their worst, each
 * attack beside honest agents of another owner. The control is the same without the attack, beside a process that uses as much
 * CPU as the attacker did. Prints the figures of each attack.
 */
import { assert, assertEquals } from "@std/assert";
import type { AttackName, HostileJob, StoredAgent } from "../support/hostile_account.ts";
import { HealthPoller } from "../support/health_poller.ts";
import {
  Connector,
  eventually,
  type LiveAgent,
  messageTo,
  newAgent,
  pair,
  Service,
  SOON_MS,
} from "../support/process.ts";
import { ChildProcess } from "../support/child_process.ts";
import { cpuSeconds, heldBytes, stopwatch } from "../support/process_figures.ts";

const ATTACKS: readonly AttackName[] = [
  "frames",
  "garbage",
  "fragments",
  "queues",
  "silence",
  "replays",
  "connects",
  "bodies",
];
const HOSTILE_AGENTS = 100;
/** Honest pairs. Each sends a message a second, which is its limit. */
const PAIRS = 4;
const RUN_SECONDS = 20;
const MAX_RATIO = 3;
/** An attack slows each round; a neighbour on the machine hardly slows five of them. */
const ROUNDS = 5;
/** A time below counts as this: three times a lucky millisecond is no sign of an attack. */
const FLOOR_MS = 50;
/** The most that the process may hold: what is documented for one owner, and the start of the process, with room. */
const MAX_HELD_BYTES = 512 * 2 ** 20;
/** Mailboxes of one owner as recipient, with SQLite's journal. */
const MAX_STORE_BYTES = 3 * 256 * 2 ** 20;
/** The defaults, in place of those that no test reaches. */
const LIMITS = {
  AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "60",
  OWNER_RATE_LIMIT_REQUESTS_PER_MINUTE: "1200",
};

interface Figures {
  healthMs: number;
  p99Ms: number;
  refused: string[];
}

function worstRatio({ attacked, control }: { attacked: Figures; control: Figures }): number {
  const ratio = (name: "healthMs" | "p99Ms") => attacked[name] / Math.max(control[name], FLOOR_MS);
  return Math.max(ratio("healthMs"), ratio("p99Ms"));
}

/** Sends from every honest agent for a while beside a process. */
async function measure(service: Service, pairs: [LiveAgent, LiveAgent][], poller: HealthPoller): Promise<Figures> {
  await poller.take();
  const times: number[] = [], refused: string[] = [];
  await Promise.all(pairs.map(async ([from, to], n) => {
    await new Promise((resolve) => setTimeout(resolve, n * 1000 / PAIRS));
    for (let sent = 0; sent < RUN_SECONDS; sent++) {
      const passed = stopwatch(service.server.pid), began = performance.now();
      await from.client.sendMessage(messageTo(to)).then(
        ({ delivered }) => delivered || refused.push("not delivered"),
        (error) => refused.push(error.code ?? String(error)),
      );
      times.push(passed());
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, 1_010 - (performance.now() - began))));
    }
  }));
  assertEquals((await fetch(`${service.url}/readyz`)).status, 200);
  times.sort((a, b) => a - b);
  return {
    healthMs: Math.max(...await poller.take()),
    p99Ms: times[Math.floor(times.length * 0.99)] ?? 0,
    refused,
  };
}

async function beside(job: HostileJob, folder: string, work: () => Promise<Figures>) {
  const path = `${folder}/job.json`;
  await Deno.writeTextFile(path, JSON.stringify(job));
  await using child = new ChildProcess([
    ...["run", "--quiet", "--no-prompt", "--no-check", "-A"],
    ...["tests/support/hostile_account.ts", path],
  ]);
  await eventually(SOON_MS, "the account begins", () => child.stdout.text.includes("started") || undefined);
  const before = cpuSeconds(`/proc/${child.pid}`), began = performance.now();
  const figures = await work();
  const share = (cpuSeconds(`/proc/${child.pid}`) - before) / (performance.now() - began) * 1000;
  await child.end();
  return { ...figures, share, answers: child.stdout.text.trim().split("\n").at(-1) ?? "" };
}

for (const attack of ATTACKS) {
  Deno.test(`an account that does its worst slows others at most three times as much as its CPU alone does: ${attack}`, async () => {
    await using service = await Service.open(LIMITS);
    const hostile = await service.person();
    const agents: LiveAgent[] = [];
    for (let n = 0; n < HOSTILE_AGENTS; n++) agents.push(await newAgent(service.place, hostile, `hostile-${n}`));
    for (const [n, agent] of agents.slice(0, 50).entries()) await pair(agent, agents[n + 50] as LiveAgent);
    const pairs: [LiveAgent, LiveAgent][] = [];
    for (let n = 0; n < PAIRS; n++) {
      const owner = await service.person();
      const [from, to] = [await service.agent(`from-${n}`, owner), await service.agent(`to-${n}`, owner)];
      await pair(from, to);
      await Connector.open(service.place, to);
      pairs.push([from, to]);
    }
    const stored = agents.map(({ identity: { privateKey: _, ...identity }, keys }): StoredAgent => ({
      ...identity,
      seed: keys.seed,
    }));
    const folder = service.folders[0]?.path ?? "";
    using poller = new HealthPoller(service.url, service.server.pid);
    let peakBytes = 0, storeBytes = 0;
    const watch = setInterval(() => {
      peakBytes = Math.max(peakBytes, heldBytes(service.server.pid));
      let bytes = 0;
      for (const { name } of Deno.readDirSync(folder)) bytes += Deno.statSync(`${folder}/${name}`).size;
      storeBytes = Math.max(storeBytes, bytes);
    }, 100);
    try {
      const job = { url: service.url, agents: stored, share: 0 };
      const run = () => measure(service, pairs, poller);
      const compared = async () => {
        const attacked = await beside({ ...job, attack }, folder, run);
        await new Promise((resolve) => setTimeout(resolve, 45_000));
        const control = await beside({ ...job, attack: "burn", share: attacked.share }, folder, run);
        const figures = { attack, attacked, control, peakMiB: peakBytes / 2 ** 20, storeMiB: storeBytes / 2 ** 20 };
        console.log(JSON.stringify(figures));
        assertEquals([attacked.refused, control.refused], [[], []]);
        return figures;
      };
      let figures = await compared();
      for (let round = 1; round < ROUNDS && worstRatio(figures) > MAX_RATIO; round++) figures = await compared();
      const ratio = worstRatio(figures);
      assert(ratio <= MAX_RATIO, `${ratio.toFixed(2)} times the control, ${JSON.stringify(figures)}`);
      assert(peakBytes <= MAX_HELD_BYTES && storeBytes <= MAX_STORE_BYTES, JSON.stringify(figures));
    } finally {
      clearInterval(watch);
    }
  });
}
