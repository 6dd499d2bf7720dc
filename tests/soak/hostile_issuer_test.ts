/**
 * What a registry of another server can cost this one (D-280, D-282): each attack of a hostile one beside a local pair. The control is
 * the same without it, beside a process that uses as much CPU. Prints the figures of each attack.
 */
import { assert, assertEquals } from "@std/assert";
import { ISSUER_ATTACKS, type IssuerAttack, type IssuerJob } from "../support/hostile_issuer.ts";
import { HealthPoller } from "../support/health_poller.ts";
import { ChildProcess } from "../support/child_process.ts";
import { Connector, eventually, freePort, messageTo, Service, SOON_MS } from "../support/process.ts";
import { cpuSeconds, heldBytes, stopwatch } from "../support/process_figures.ts";
import { provePairKey } from "../../shared/protocol/pair_key.ts";
import { withPairSecret } from "../../shared/protocol/ticket.ts";

const RUN_SECONDS = 10;
/** A list is read again after a minute, so what is wrong with it is met only then. */
const LIST_SECONDS = 75;
const OF_LISTS: ReadonlySet<string> = new Set(["long_lists", "new_lists", "slow_answers", "no_answers"]);
/** With the default the keys would not be read again in that time. */
const KEYS_TTL = { REGISTRY_KEYS_TTL_MS: "5000" };
const MAX_RATIO = 3;
/** A time below counts as this: three times a lucky millisecond is no sign of an attack. */
const FLOOR_MS = 50;
/** An attack slows each round; a neighbour on the machine hardly slows five of them. */
const ROUNDS = 5;
const MAX_HELD_BYTES = 512 * 2 ** 20;
const SECRET = "A".repeat(22);

/** What the attacked server may answer: refusals with a clear code, and what a paired agent may do within its limits. */
const EXPECTED =
  /^(?:401 PROXY_A[A-Z_]+|202|404 PROXY_PAIR_TICKET_NOT_FOUND|429 [A-Z_]+|503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE|502 [A-Z_]+|403 [A-Z_]+|400 [A-Z_]+)$/;

/** Times of the local pair in one round. */
interface Figures {
  healthMs: number;
  p99Ms: number;
}

function worstRatio({ attacked, control }: { attacked: Figures; control: Figures }): number {
  const ratio = (name: keyof Figures) => attacked[name] / Math.max(control[name], FLOOR_MS);
  return Math.max(ratio("healthMs"), ratio("p99Ms"));
}

/** Measures an attack and its control on a server of their own, because an agent that has come before is no stranger to it. */
async function compared(attack: IssuerAttack) {
  await using service = await Service.open(KEYS_TTL);
  const { a, b } = await service.agents();
  await Connector.open(service.place, b);
  const victim = await service.agent("victim");
  await Connector.open(service.place, victim);
  const side = { role: "initiator", did: victim.identity.did, profile: { agentName: "v", humanName: "V" } } as const;
  const initiatorKey = await provePairKey(SECRET, side, victim.keys.publicKey);
  const { ticket } = await victim.client.pairStart(side.profile, undefined, initiatorKey);
  const folder = service.folders[0]?.path ?? "";
  const { pid } = service.server;
  using poller = new HealthPoller(service.url, pid);
  // As long for the control, because the longest time of a longer run is longer.
  const seconds = OF_LISTS.has(attack) ? LIST_SECONDS : RUN_SECONDS;
  const measure = async () => {
    await poller.take();
    const times: number[] = [];
    for (let sent = 0; sent < seconds * 20; sent++) {
      const passed = stopwatch(pid), began = performance.now();
      const { delivered } = await a.client.sendMessage(messageTo(b));
      assert(delivered);
      times.push(passed());
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, 50 - (performance.now() - began))));
    }
    times.sort((one, other) => one - other);
    return { healthMs: Math.max(...await poller.take()), p99Ms: times[Math.floor(times.length * 0.99)] ?? 0 };
  };
  const beside = async (more: Pick<IssuerJob, "attack" | "share">) => {
    const job: IssuerJob = {
      url: service.url,
      issuer: `http://127.0.0.2:${freePort()}`,
      ticket: withPairSecret(ticket, SECRET),
      recipient: victim.identity.did,
      ...more,
    };
    await Deno.writeTextFile(`${folder}/job.json`, JSON.stringify(job));
    await using child = new ChildProcess([
      ...["run", "--quiet", "--no-prompt", "--no-check", "-A", "--unstable-kv"],
      ...["tests/support/hostile_issuer.ts", `${folder}/job.json`],
    ]);
    const begun = () => child.stdout.text.includes("started") || undefined;
    await eventually(SOON_MS, "the registry begins", begun).catch((cause) => {
      throw new Error(child.printed, { cause });
    });
    const before = cpuSeconds(`/proc/${child.pid}`), began = performance.now();
    const figures = await measure();
    const share = (cpuSeconds(`/proc/${child.pid}`) - before) / (performance.now() - began) * 1000;
    await child.end();
    return { ...figures, share, answers: JSON.parse(child.stdout.text.trim().split("\n").at(-1) ?? "{}") };
  };
  const attacked = await beside({ attack, share: 0 });
  const heldMiB = heldBytes(pid) / 2 ** 20;
  const control = await beside({ attack: "burn", share: attacked.share });
  const figures = { attack, attacked, control, heldMiB };
  console.log(JSON.stringify(figures));
  return figures;
}

for (const attack of ISSUER_ATTACKS) {
  Deno.test(`a hostile registry slows local agents at most three times as much as its CPU alone does: ${attack}`, async () => {
    let figures = await compared(attack);
    for (let round = 1; round < ROUNDS && worstRatio(figures) > MAX_RATIO; round++) figures = await compared(attack);
    const { attacked, heldMiB } = figures;
    assert(worstRatio(figures) <= MAX_RATIO, `${worstRatio(figures)} times the control, ${JSON.stringify(figures)}`);
    assert(heldMiB * 2 ** 20 <= MAX_HELD_BYTES);
    assertEquals(Object.keys(attacked.answers).filter((answer) => !EXPECTED.test(answer)), []);
  });
}
