/**
 * A load process: its agents register, pair, connect and send, one job at a time. Jobs and results are lines of JSON on
 * stdin and stdout (jobs.ts). Measures time and its own CPU. Ends with its stdin.
 *
 *   deno run --allow-net=127.0.0.1 tests/bench/load.ts
 */
import { eachLine, pause } from "./child.ts";
import { Fleet } from "./fleet.ts";
import type { AnswerLine, JobLine, Jobs } from "./jobs.ts";
import { prepare, type Prepared } from "./plans.ts";
import { run, timed } from "./run.ts";

const fleet = new Fleet();
let prepared: Prepared = { requests: [], isGood: () => false, ledger: null };
let target = "";

async function work(line: JobLine): Promise<Jobs[keyof Jobs]["answer"]> {
  switch (line.job) {
    case "invent":
      return await fleet.invent(line.ask.count);
    case "register": {
      const { registryUrl, apiKeys, count } = line.ask;
      let ids: string[] = [];
      const cost = await timed(async () => {
        ids = await fleet.register(registryUrl, apiKeys, count);
      });
      return { ...cost, ids };
    }
    case "pair":
      await fleet.pair(line.ask.proxyUrl, line.ask.pairs);
      return null;
    case "connect": {
      const { proxyUrl, agents, stalled = false } = line.ask;
      return await timed(() => fleet.connect(proxyUrl, agents, stalled));
    }
    case "keep": {
      const { proxyUrls, agents } = line.ask;
      return await timed(() => fleet.keep(proxyUrls, agents));
    }
    case "returned":
      return await returned(line.ask);
    case "resume":
      return { closed: await fleet.resume(line.ask.waitMs) };
    case "prepare":
      prepared = await prepare(line.ask, fleet);
      target = "proxyUrl" in line.ask ? line.ask.proxyUrl : line.ask.url;
      return { count: prepared.requests.length };
    case "run":
      return await run(target, prepared, line.ask);
  }
}

async function returned({ count, waitMs }: Jobs["returned"]["ask"]): Promise<Jobs["returned"]["answer"]> {
  const end = performance.now() + waitMs;
  const cost = await timed(async () => {
    while (fleet.returns.length < count && performance.now() < end) await pause(20);
  });
  return { ...cost, at: [...fleet.returns], failures: fleet.failures };
}

function causes(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${causes(error.cause)}`;
}

// Jobs do not overlap: the bench waits for the result before it sends the next line.
await eachLine(Deno.stdin.readable, (text) => {
  void work(JSON.parse(text) as JobLine)
    .then((answer): AnswerLine => ({ answer }), (error): AnswerLine => ({ failed: causes(error) }))
    .then((line) => console.log(JSON.stringify(line)));
});
Deno.exit(0);
