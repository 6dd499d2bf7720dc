/**
 * Operations of agents and their connectors at the proxy in a simulation: pairs, sockets, acknowledgements, messages,
 * receipts.
 */
import type { HookAnswer } from "../../shared/protocol/api/relay.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type Actor, agentClient, keep, type Message, signed, tried } from "./cast.ts";
import type { Manner, SimSocket } from "./instance.ts";
import type { Call, Simulation } from "./simulation.ts";

const profileOf = ({ name }: Actor) => ({ agentName: name.toLowerCase(), humanName: "Someone" });

export async function startPairing(sim: Simulation, actor = sim.choose(sim.cast.actors)): Promise<void> {
  if (!actor) return;
  const call: Call = { name: `${actor.name} starts a pairing`, area: "pairing", counts: actor.name };
  const answer = await tried(agentClient(sim, actor, call).pairStart(profileOf(actor)));
  if (!answer) return;
  const name = sim.next("T");
  sim.cast.tickets.push({ name, ticket: keep(sim, answer.ticket, name), by: actor, confirmed: false });
}

export async function confirmPairing(sim: Simulation, actor = sim.choose(sim.cast.actors)): Promise<void> {
  const one = sim.chance(70) ? sim.cast.tickets.at(-1) : sim.choose(sim.cast.tickets);
  if (!one || !actor) return;
  const agents = [one.by.name, actor.name] as const;
  const call: Call = {
    name: `${actor.name} confirms ${one.name}`,
    area: "pairing",
    counts: actor.name,
    // From its start: it can take effect without an answer.
    started: () => one.confirmed || sim.write({ kind: "paired", agents }),
    served: () => {
      one.confirmed = true;
      sim.write({ kind: "used", thing: `ticket ${one.name}`, by: actor.name });
    },
  };
  await tried(agentClient(sim, actor, call).pairConfirm(one.ticket, profileOf(actor)));
}

export async function removePair(sim: Simulation): Promise<void> {
  const [actor, peer] = sim.chance(30) ? sim.cast.actors : [sim.choose(sim.cast.actors), sim.choose(sim.cast.actors)];
  if (!actor || !peer) return;
  const body = JSON.stringify({ peerAgentDid: peer.agent.did });
  const name = `${actor.name} removes ${peer.name}`;
  const served = () => sim.write({ kind: "unpaired", agents: [actor.name, peer.name] });
  await signed(sim, actor, { name, area: "pairing", counts: actor.name, served }, "POST", "/pair/remove", body);
}

export async function connect(
  sim: Simulation,
  actor = sim.choose([...sim.cast.actors, ...sim.cast.actors.slice(1, 2)]),
  manner = mannerOf(sim),
): Promise<void> {
  if (!actor) return;
  let socket: SimSocket | undefined;
  const call: Call = {
    name: `${actor.name} connects`,
    area: "connect",
    counts: `${actor.name} as it connects`,
    served: () => {
      socket = sim.sockets.find((one) => one.agent === actor.name && one.isNew);
      socket?.open(manner);
    },
  };
  const answer = await signed(sim, actor, call, "GET", "/v1/relay/connect", undefined, { Upgrade: "websocket" });
  // Open at one end only when the answer did not arrive.
  if (socket && !answer) socket.isDeaf = true;
}

export async function connectAll(sim: Simulation): Promise<void> {
  for (const socket of sim.sockets) socket.drop();
  for (const actor of sim.cast.actors) await connect(sim, actor, "acks");
}

function mannerOf(sim: Simulation): Manner {
  return sim.choose<Manner>(["acks", "acks", "acks", "nacks", "waits", "waits"]) ?? "acks";
}

const open = (sim: Simulation) => sim.sockets.filter((socket) => !socket.closed);

export function disconnect(sim: Simulation): void {
  sim.choose(open(sim))?.drop();
}

export function halfOpen(sim: Simulation): void {
  const socket = sim.choose(open(sim));
  if (socket) socket.isDeaf = true;
}

export function changeManner(sim: Simulation): void {
  const socket = sim.choose(open(sim));
  if (socket) socket.manner = mannerOf(sim);
}

export function acknowledge(sim: Simulation): void {
  const socket = sim.choose(open(sim).filter((one) => one.unacked.length > 0));
  const frame = socket && sim.choose(socket.unacked);
  if (frame) socket.ack(frame, sim.chance(85));
}

export function acknowledgeTwice(sim: Simulation): void {
  const socket = sim.choose(open(sim).filter((one) => one.unacked.length > 0));
  const frame = socket && sim.choose(socket.unacked);
  if (!frame) return;
  const accepted = sim.chance(50);
  socket.ack(frame, accepted);
  socket.ack(frame, !accepted);
}

export async function send(sim: Simulation, prefer?: "respond-async"): Promise<void> {
  // Mostly between the first pair, so that messages are concurrent.
  const [a, b] = sim.chance(65) ? sim.cast.actors : [sim.choose(sim.cast.actors), sim.choose(sim.cast.actors)];
  if (!a || !b || a === b) return;
  const [sender, recipient] = sim.chance(80) ? [a, b] : [b, a];
  await sendTo(sim, sender, recipient, prefer);
}

async function sendTo(sim: Simulation, from: Actor, to: Actor, prefer?: "respond-async"): Promise<void> {
  const name = sim.next("M");
  const message = { name, from, to, requestId: `request-${name.padStart(8, "-")}` };
  sim.name(message.requestId, name);
  sim.cast.messages.push(message);
  await post(sim, message, name, prefer);
}

export async function sendAsync(sim: Simulation): Promise<void> {
  await send(sim, "respond-async");
}

/** The second agent disconnects, gets messages meanwhile, and reconnects with a connector that acknowledges late. */
export async function absence(sim: Simulation): Promise<void> {
  const [from, to] = sim.cast.actors;
  if (!from || !to) return;
  for (const socket of open(sim)) if (socket.agent === to.name) socket.drop();
  for (let i = 0; i < 3; i++) await sendTo(sim, from, to, "respond-async");
  await connect(sim, to, "waits");
}

export async function sendAgain(sim: Simulation): Promise<void> {
  const message = sim.choose(sim.cast.messages.slice(-4));
  if (message) await post(sim, message, message.name, sim.chance(50) ? "respond-async" : undefined);
}

/** Sends another text with a used request ID. */
export async function sendOther(sim: Simulation): Promise<void> {
  const message = sim.choose(sim.cast.messages.slice(-4));
  if (message) await post(sim, message, "another text");
}

async function post(sim: Simulation, message: Message, text: string, prefer?: "respond-async"): Promise<void> {
  const { from, to, name, requestId } = message;
  const about = { message: name, from: from.name, to: to.name };
  const call: Call = {
    name: `${from.name} sends ${text} to ${to.name}${prefer ? ", which may wait" : ""}`,
    area: "message",
    counts: from.name,
    started: (serving) => sim.write({ kind: "sent", serving, ...about }),
    served: (body, serving) => {
      const { delivered, queued } = body as HookAnswer;
      const as = delivered ? "delivered" : queued ? "queued" : "refused";
      sim.write({ kind: "taken", serving, ...about, as });
    },
  };
  await tried(
    agentClient(sim, from, call).sendMessage({
      recipientDid: to.agent.did,
      payload: JSON.stringify({ message: text }),
      requestId,
      ...(prefer ? { prefer } : {}),
    }),
  );
}

export async function submitReceipt(sim: Simulation): Promise<void> {
  const message = sim.choose(sim.cast.messages);
  if (!message) return;
  const { from, to, requestId } = message;
  const call: Call = { name: `${to.name} gives a receipt for ${message.name}`, area: "receipt" };
  await tried(
    agentClient(sim, to, call).submitReceipt({
      requestId,
      recipientAgentDid: to.agent.did,
      senderAgentDid: from.agent.did,
      status: "processed_by_svc",
      timestamp: toIso(sim.clock.now()),
    }),
  );
}

export async function readReceipts(sim: Simulation): Promise<void> {
  const message = sim.choose(sim.cast.messages);
  if (!message) return;
  const call: Call = { name: `${message.from.name} reads the receipts of ${message.name}`, area: "receipt" };
  await tried(agentClient(sim, message.from, call).receipts(message.requestId, message.to.agent.did));
}
