/** The operations of a simulation: a table with the frequency of each, and the initial participants. */
import { BOOTSTRAP_SECRET } from "../support/world.ts";
import { type Cast, registry } from "./cast.ts";
import * as people from "./people.ts";
import type { Simulation } from "./simulation.ts";
import * as talk from "./talk.ts";

interface Operation {
  weight: number;
  run(sim: Simulation): Promise<void> | void;
}

const row = (weight: number, run: Operation["run"]): Operation => ({ weight, run });

export const OPERATIONS: readonly Operation[] = [
  row(2, people.createInvite),
  row(3, people.redeemInvite),
  row(3, people.register),
  row(1, people.bootstrapAgain),
  row(6, people.refresh),
  row(1, people.refreshWithOldToken),
  row(0.7, people.revokeSession),
  row(2, people.reissue),
  row(0.5, people.deleteAgent),
  row(2, people.readList),
  row(4, talk.startPairing),
  row(5, talk.confirmPairing),
  row(2, talk.removePair),
  row(14, talk.connect),
  row(3, talk.disconnect),
  row(2, talk.halfOpen),
  row(3, talk.changeManner),
  row(14, talk.send),
  row(10, talk.sendAsync),
  row(2, talk.absence),
  row(5, talk.sendAgain),
  row(1, talk.sendOther),
  row(4, (sim) => sim.replay()),
  row(5, (sim) => sim.arrive()),
  row(8, talk.acknowledge),
  row(2, talk.acknowledgeTwice),
  row(2, talk.submitReceipt),
  row(1, talk.readReceipts),
  row(2, crash),
  row(1.5, crashSoon),
  row(5, startInstance),
  row(1, skewClock),
  row(1, setClock),
  row(12, (sim) => sim.pass(sim.choose([50, 400, 2100]) ?? 0)),
  row(2, (sim) => sim.pass(11_000)),
  row(0.6, (sim) => sim.pass(62_000)),
];

/** The first admin with two agents, which are paired. One of them is connected. */
export async function introduce(sim: Simulation): Promise<Cast> {
  const cast: Cast = {
    people: [],
    actors: [],
    invites: [],
    tickets: [],
    messages: [],
    ending: [talk.connectAll, people.readList],
  };
  sim.cast = cast;
  const answer = await registry(sim, {
    name: "bootstrap",
    served: (_, serving) => sim.write({ kind: "used", thing: "bootstrap", by: `request ${serving}` }),
  }).bootstrap(BOOTSTRAP_SECRET);
  sim.secrets.add(BOOTSTRAP_SECRET);
  people.addPerson(sim, answer.apiKey.token);
  for (let i = 0; i < 2; i++) await people.registerFor(sim, cast.people[0]);
  const [a, b] = cast.actors;
  await talk.startPairing(sim, a);
  await talk.confirmPairing(sim, b);
  await talk.connect(sim, b);
  return cast;
}

// Machines

function crash(sim: Simulation): void {
  sim.choose(sim.instances)?.crash();
}

/** Crashes during the following operation. */
function crashSoon(sim: Simulation): void {
  sim.choose(sim.instances)?.crash(1 + sim.below(12), sim.chance(50));
}

async function startInstance(sim: Simulation): Promise<void> {
  await sim.instances.find(({ isUp }) => !isUp)?.start();
}

function skewClock(sim: Simulation): void {
  const instance = sim.choose(sim.instances);
  if (!instance) return;
  instance.skewMs = sim.choose([0, 0, -1000, 1000, 20_000, -20_000, 600_000]) ?? 0;
  const skewed = new Set(sim.instances.map(({ skewMs }) => skewMs)).size > 1;
  sim.write({ kind: "clock", what: `${instance.name} is ${instance.skewMs} ms off`, skewed });
}

function setClock(sim: Simulation): void {
  const ms = sim.choose([-600_000, -1000, 1000, 600_000]) ?? 0;
  sim.setClock(ms);
  const skewed = new Set(sim.instances.map(({ skewMs }) => skewMs)).size > 1;
  sim.write({ kind: "clock", what: `all by ${ms} ms`, skewed });
}
