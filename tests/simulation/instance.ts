/**
 * One instance of both services in a simulation: its own world over a view of the shared store, with a clock that can
 * differ from the others', a connection to the registry that fails at times, and simulated sockets. It can crash at any
 * call of the store, and starts again from the store only.
 */
import type { UpgradeWebSocket } from "../../shared/server/http/open_sockets.ts";
import { decodeFrame, type DeliverFrame } from "../../shared/protocol/frames.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { ManualClock } from "../support/manual_clock.ts";
import { World } from "../support/world.ts";
import type { Simulation } from "./simulation.ts";
import { View } from "./store.ts";
import { inFlight } from "../support/in_flight.ts";

/** The clock of an instance: time passes as everywhere, and the time of day can differ. */
class InstanceClock extends ManualClock {
  isOn = true;

  constructor(readonly base: ManualClock, readonly skewMs: () => number) {
    super();
  }

  override now(): number {
    return this.base.now() + this.skewMs();
  }

  override after(ms: number, fn: () => void): () => void {
    return this.base.after(ms, () => this.isOn && fn());
  }
}

export class Instance {
  world!: World;
  isUp = false;
  /** Difference of its clock from the correct time, milliseconds. */
  skewMs = 0;
  /** Resolves with `null` when the present run of the instance ends. */
  gone!: Promise<null>;
  #view!: View;
  #lives = 0;

  constructor(readonly sim: Simulation, readonly name: string) {}

  /** Starts from the contents of the store. */
  async start(): Promise<void> {
    const clock = new InstanceClock(this.sim.clock, () => this.skewMs);
    const view = this.#view = new View(this.sim.store);
    const { promise, resolve } = Promise.withResolvers<null>();
    this.gone = promise;
    view.onDeath = () => {
      this.isUp = clock.isOn = false;
      this.sim.write({ kind: "crashed", instance: this.name });
      for (const socket of this.sim.sockets) if (socket.instance === this) socket.closed = true;
      resolve(null);
    };
    const seed = this.sim.seed * 1000 + ++this.#lives * 10 + Number(this.name.slice(1));
    const world = this.world = await World.open({
      kv: view.kv,
      clock,
      seed,
      proxy: { agentRequests: this.sim.limit.requests, agentWindowMs: this.sim.limit.windowMs },
    });
    this.sim.worlds.push(world);
    world.registryAnswer = (request) => this.sim.connectionToRegistry(this, request);
    world.proxy.deps.upgrade = this.#upgrade;
    await world.proxy.start();
    this.isUp = true;
    this.sim.write({ kind: "up", instance: this.name });
  }

  /** Ends at once, or at the given call of the store from now on, which can still take effect. */
  crash(calls = 0, effective = false): void {
    if (this.isUp) this.#view.die(calls, effective);
  }

  readonly #upgrade: UpgradeWebSocket = (request) => {
    const agent = this.sim.agentOf(request);
    const socket = new SimSocket(this.sim, this, agent, `S${this.sim.sockets.length + 1}`);
    this.sim.sockets.push(socket);
    return { socket: socket as unknown as WebSocket, response: new Response(null, { status: 200 }) };
  };
}

/** How a connector handles a message. */
export type Manner = "acks" | "nacks" | "waits";

/** The part of a WebSocket that the proxy uses, and the connector at its far end. */
export class SimSocket {
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  onerror: (() => void) | null = null;
  readonly bufferedAmount = 0;
  manner: Manner = "acks";
  /** Not open yet. */
  isNew = true;
  closed = false;
  /** Half open: nothing passes, and neither end has noticed. */
  isDeaf = false;
  /** Frames that the connector has not acknowledged. */
  readonly unacked: DeliverFrame[] = [];

  constructor(readonly sim: Simulation, readonly instance: Instance, readonly agent: string, readonly name: string) {}

  open(manner: Manner): void {
    this.isNew = false;
    this.manner = manner;
    this.sim.write({ kind: "note", text: `${this.name} of ${this.agent} opens at ${this.instance.name}` });
    this.onopen?.();
  }

  send(text: string): void {
    const frame = decodeFrame(text, "proxy");
    if (frame.type === "deliver") {
      const message = this.sim.nameOf(frame.requestId);
      const from = this.sim.nameOf(frame.fromAgentDid);
      this.sim.write({ kind: "frame", message, from, to: this.agent, socket: this.name });
      if (this.isDeaf) return;
      this.unacked.push(frame);
      if (this.manner !== "waits") queueMicrotask(() => this.ack(frame, this.manner === "acks"));
    }
    if (frame.type === "heartbeat") queueMicrotask(() => this.#say({ type: "heartbeat_ack", ackId: frame.id }));
  }

  close(code: number): void {
    this.sim.write({ kind: "note", text: `${this.name} of ${this.agent} is closed with ${code}` });
    queueMicrotask(() => this.drop());
  }

  /** Ends the connection. */
  drop(): void {
    if (this.closed) return;
    this.closed = true;
    this.onclose?.();
  }

  /** Acknowledges a frame, possibly a second time. */
  ack(frame: DeliverFrame, accepted: boolean): void {
    const at = this.unacked.indexOf(frame);
    if (at !== -1) this.unacked.splice(at, 1);
    const { connectedAgents } = this.instance.world.proxy.deps;
    const before = inFlight(connectedAgents);
    this.#say({ type: "deliver_ack", ackId: frame.id, accepted, ...(accepted ? {} : { reason: "inbox_full" }) });
    if (inFlight(connectedAgents) === before) return;
    this.sim.write({ kind: "acked", message: this.sim.nameOf(frame.requestId), accepted });
  }

  #say(members: Record<string, unknown>): void {
    if (this.closed || this.isDeaf) return;
    const head = { v: 1, id: this.sim.newId(), ts: toIso(this.sim.clock.now()) };
    this.onmessage?.({ data: JSON.stringify({ ...head, ...members }) });
  }
}
