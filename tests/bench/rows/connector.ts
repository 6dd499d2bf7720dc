/**
 * What the connectors of sender and recipient pay for a message: CPU, from the call of the local API to the answer of the runtime,
 * between peers of a ticket, whose messages are sealed and whose receipts are signed, and between contacts, whose are not.
 */
import { Listener } from "../../cli/connector/people.ts";
import { bundledProgram } from "../../cli/program.ts";
import { pairedNames } from "../../e2e/harness.ts";
import { eventually } from "../../support/process.ts";
import type { Child } from "../child.ts";
import { figure, type Outcome, percentile, ratio } from "../figures.ts";
import { UNLIMITED, type World } from "../world.ts";

/** Messages before those that count, while the runtime compiles the code. */
const WARM_UP = 50;
/** Receipts leave after the last message. */
const TRAILING_MS = 2_000;

interface Cost {
  senderUs: number | null;
  recipientUs: number | null;
  p50: number;
}

export async function connectors(world: World): Promise<Outcome> {
  const { place: { proxyUrl: url }, admin: { apiKey } } = await world.together(UNLIMITED);
  const sealed = await cost(world, { apiKey, url }, "ticket");
  const plain = await cost(world, { apiKey, url }, "contact");
  return {
    figures: [
      figure("sealed: CPU of the sender's connector for a message", sealed.senderUs, "µs"),
      figure("sealed: CPU of the recipient's connector for a message", sealed.recipientUs, "µs"),
      figure("sealed: p50 of a call", sealed.p50, "ms"),
      figure("plain: CPU of the sender's connector for a message", plain.senderUs, "µs"),
      figure("plain: CPU of the recipient's connector for a message", plain.recipientUs, "µs"),
      figure("plain: p50 of a call", plain.p50, "ms"),
      ratio("sealed / plain: CPU of the sender's connector", sealed.senderUs, plain.senderUs),
      ratio("sealed / plain: CPU of the recipient's connector", sealed.recipientUs, plain.recipientUs),
    ],
  };
}

async function cost(world: World, service: { apiKey: string; url: string }, how: "ticket" | "contact"): Promise<Cost> {
  const program = await bundledProgram();
  const [run = "", ...options] = program.args;
  const dir = `${world.folder}/connector-${how}`, names = ["alpha", "beta"] as const;
  await pairedNames(service, dir, names);
  if (how === "contact") { for (const name of names) forgetKeys(`${dir}/agents/${name}/peers.json`); }
  await using runtime = new Listener();
  const start = (name: string) => {
    const line = ["connector", "start", name, "--config-dir", dir, "--runtime-base-url", runtime.url];
    return world.spawn([run, ...world.profiling, ...options, ...line], { NO_COLOR: "1" }, program.command);
  };
  const [alpha, beta] = [start("alpha"), start("beta")];
  for (const child of [alpha, beta]) while (!(await child.line()).includes('"event":"connected"'));
  const { url, token } = JSON.parse(await Deno.readTextFile(`${dir}/agents/alpha/connector.json`));
  const times: number[] = [];
  const count = WARM_UP + world.scale.asks;
  let before: [number | null, number | null] = [null, null];
  for (let n = 0; n < count; n++) {
    if (n % 50 === 0) world.say(`${n} messages to a ${how}`);
    if (n === WARM_UP) before = await settled(runtime, n, alpha, beta);
    const began = performance.now();
    const body = JSON.stringify({ to: "beta", text: `message ${n} `.padEnd(200, ".") });
    const response = await fetch(`${url}/v1/outbound`, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}` },
      body,
    });
    const { delivered } = await response.json();
    const isSealed = response.headers.get("x-svc-sealed") === "1";
    if (delivered !== true || isSealed !== (how === "ticket")) throw new Error(`Message ${n} to a ${how} went wrong`);
    if (n >= WARM_UP) times.push(performance.now() - began);
  }
  const after = await settled(runtime, count, alpha, beta);
  await Promise.all([alpha.end(), beta.end()]);
  const [senderUs = null, recipientUs = null] = after.map((seconds, i) => {
    const first = before[i] ?? null;
    return seconds === null || first === null ? null : (seconds - first) * 1e6 / times.length;
  });
  return { senderUs, recipientUs, p50: percentile(times.sort((a, b) => a - b), 0.5) };
}

/** CPU of both when the runtime has all messages and the receipts have left. */
async function settled(
  runtime: Listener,
  count: number,
  alpha: Child,
  beta: Child,
): Promise<[number | null, number | null]> {
  await eventually(60_000, "the runtime has all messages", () => runtime.received.length >= count || undefined);
  await new Promise((resolve) => setTimeout(resolve, TRAILING_MS));
  return [alpha.cpuSeconds(), beta.cpuSeconds()];
}

/** Makes the peers contacts that keep their names. */
function forgetKeys(path: string): void {
  const peers = JSON.parse(Deno.readTextFileSync(path)) as Record<string, Record<string, unknown>>;
  const without = Object.entries(peers).map((
    [alias, { key: _key, how: _how, since: _since, ...peer }],
  ) => [alias, peer]);
  Deno.writeTextFileSync(path, JSON.stringify(Object.fromEntries(without)));
}
