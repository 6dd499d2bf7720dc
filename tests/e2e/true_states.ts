/**
 * What `svc sent` and the tools of `svc mcp` say of messages while processes are killed (D-395): a state may be `unknown`,
 * but never one that recipient or server contradict.
 */
import { assert } from "@std/assert";
import { MANY_STARTS, PairedAgents } from "../cli/connector/paired_agents.ts";
import { svcHere } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import type { MessageState } from "../../shared/client/agent_api.ts";
import { stateOf } from "../../cli/link/message_request.ts";
import { SETTLED_MS } from "../../cli/link/reconnect.ts";
import { eventually } from "../support/process.ts";
import { numbersFrom } from "../support/seeded_random.ts";
import { END_MS, type Host, ModelSide } from "./model_side.ts";

/** A process of one of two agents that write to each other, or their server. */
const VICTIMS = ["alpha's svc mcp", "beta's svc mcp", "alpha's connector", "beta's connector", "the server"];

/** How a process is killed. */
export interface Trials {
  seed: number;
  /** Whether the connector of an agent is another process than its `svc mcp`. */
  isAttached: boolean;
}

/** The processes to kill: all, or those that have a connector in them. */
export function victims(isAttached: boolean): readonly string[] {
  return isAttached ? VICTIMS : VICTIMS.filter((name) => name.endsWith("svc mcp"));
}

/** Most answers that the senders have before a kill, and the longest time after them, milliseconds. */
const ANSWERS = 6, LATEST_MS = 20;
/** Fewest and most messages of one sender in a trial: it sends one after the other until the kill is over. */
const FEWEST = 3, MOST = 5;
/** Pause after a call that failed: a process that was killed is back after many of them. */
const PAUSE_MS = 400;
/** Which part of the messages a model answers. */
const ANSWERED = 0.25;
/** Most that `svc sent` lists. */
const LISTED = "200";

/** A message that an agent sends. */
interface Sent {
  requestId: string;
  /** Arguments of `send_message`. */
  args: Record<string, unknown>;
}

/** A state that a sender was told. */
interface Claim {
  requestId: string;
  state: MessageState;
  by: string;
}

/** What happened in a run. */
export interface Counts {
  kills: number;
  messages: number;
  claims: number;
  /** Messages that were `unknown` after their trial, and how many of these the recipient had. */
  unknown: number;
  arrived: number;
  /** Times that a message was called `queued` and the recipient had it: the server tells the sender only when it asks. */
  behind: number;
  repeats: number;
}

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** An agent that writes to the other one. */
class Talker {
  readonly sent: Sent[] = [];
  /** Request IDs of the messages that it has answered. */
  readonly answered = new Set<string>();
  /** How many calls have ended. */
  ended = 0;
  /** What it was told since the last check. */
  claims: Claim[] = [];

  constructor(readonly side: ModelSide, readonly peer: string, readonly chance: () => number) {}

  #next(args: Record<string, unknown> = {}): Sent {
    const requestId = `${this.side.name}-to-${this.peer}-${this.sent.length + 1}`;
    const message = { requestId, args: { to: this.peer, text: requestId, request_id: requestId, ...args } };
    this.sent.push(message);
    return message;
  }

  #told(requestId: string, state: MessageState | undefined, by: string): void {
    if (state !== undefined) this.claims.push({ requestId, state, by });
  }

  /** The model sends a message: a new one, or one again. */
  async write(host: Host, { requestId, args } = this.#next()): Promise<void> {
    const { result } = await host.answer(host.call("send_message", args)) ?? {};
    if (result === undefined || result.isError) await wait(PAUSE_MS);
    if (result === undefined) return;
    const text = JSON.stringify(result.content);
    // An error that does not ask to repeat the message says that it was not sent.
    const ofError = result.isError && !text.includes(requestId) ? "refused" : undefined;
    this.#told(requestId, result.structuredContent?.state ?? ofError, `the answer ${text}`);
  }

  /** A program sends a message. */
  async post(mayWait: boolean): Promise<void> {
    const { requestId, args: { to, text } } = this.#next();
    const body = { to, text, requestId, ...mayWait ? { prefer: "respond-async" } : {} };
    try {
      const response = await this.side.call("POST", "/v1/outbound?wait=0", body);
      const answer = await response.text(), { ok, status, headers } = response;
      const { state } = ok ? JSON.parse(answer) : stateOf({ status, headers, text: answer });
      this.#told(requestId, state, `status ${status}, ${answer}`);
    } catch (error) {
      // The connector was killed, and the next one has not written its file yet.
      if (!(error instanceof TypeError || error instanceof Deno.errors.NotFound)) throw error;
      await wait(PAUSE_MS);
    }
  }

  /** Reads what comes, and answers a part of it, until the signal. */
  async read(host: Host, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const call = host.call("wait_for_message", { timeout_seconds: 10 });
      const cancel = () => host.cancel(call);
      signal.addEventListener("abort", cancel);
      const answer = await host.answer(call);
      signal.removeEventListener("abort", cancel);
      if (answer === undefined) return;
      for (const { id, isReply, requestId } of answer.result?.structuredContent?.messages ?? []) {
        if (isReply || this.chance() >= ANSWERED) continue;
        this.answered.add(requestId);
        await this.write(host, this.#next({ reply_to: id }));
      }
    }
  }

  /** Everything that happens between two checks, until the senders have their answers and reading is over. */
  async talk(host: Host, signal: AbortSignal): Promise<void> {
    const isGoingOn = (n: number) => n < FEWEST || n < MOST && !signal.aborted;
    const model = async () => {
      for (let n = 0; isGoingOn(n); n++, this.ended++) await this.write(host);
    };
    const program = async () => {
      for (let n = 0; isGoingOn(n); n++, this.ended++) await this.post(this.chance() < 0.5);
    };
    await Promise.all([this.read(host, signal), model(), program()]);
  }
}

/** Waits until a link is old enough to come back at once: the wait of one that ends again and again grows up to a minute. */
async function settled(host: Host): Promise<void> {
  const { since } = await host.use("whoami");
  await wait(Math.max(0, Date.parse(since) + SETTLED_MS - Date.now()));
}

class States implements AsyncDisposable {
  readonly #talkers: Talker[];
  readonly counts: Counts = { kills: 0, messages: 0, claims: 0, unknown: 0, arrived: 0, behind: 0, repeats: 0 };
  /** Messages that their sender was told to be refused. */
  readonly #refused = new Set<string>();
  /** How many messages of each agent were checked. */
  readonly #checked = [0, 0];
  /** The process that was killed last. */
  #last = "";
  /** Chances of the moments, apart from those of the agents, which ask in an order that depends on the machine. */
  readonly moments: () => number;

  constructor(readonly agents: PairedAgents, { seed, isAttached }: Trials) {
    this.moments = numbersFrom(seed);
    const talker = (name: string, peer: string, n: number) =>
      new Talker(new ModelSide(agents, name, isAttached), peer, numbersFrom(seed + n));
    this.#talkers = [talker("alpha", "beta", 1), talker("beta", "alpha", 2)];
  }

  get #sides(): ModelSide[] {
    return this.#talkers.map(({ side }) => side);
  }

  async kill(victim: string): Promise<void> {
    const hosts = await Promise.all(this.#sides.map((side) => side.present()));
    const isAgain = victim === "the server" && this.#last === victim;
    if (isAgain) await Promise.all(hosts.map(settled));
    this.#last = victim;
    const i = victim.startsWith("beta") ? 1 : 0, side = this.#sides[i]!;
    const over = new AbortController();
    const ended = () => this.#talkers.reduce((sum, talker) => sum + talker.ended, 0);
    const least = ended() + Math.floor(this.moments() * ANSWERS), ms = this.moments() * LATEST_MS;
    const killing = async () => {
      while (ended() < least) await wait(1);
      await wait(ms);
      if (victim.endsWith("svc mcp")) hosts[i]!.kill();
      else if (victim.endsWith("connector")) await side.connector!.child.end("SIGKILL");
      else await this.agents.service.server.end("SIGKILL");
      if (victim === "the server") await this.agents.service.restart(0);
      await wait(this.moments() * LATEST_MS);
      over.abort();
    };
    await Promise.all([killing(), ...this.#talkers.map((talker, n) => talker.talk(hosts[n]!, over.signal))]);
    this.counts.kills++;
    if (victim.endsWith("svc mcp")) await side.gone();
    // svc mcp has noticed by now, or runs the connector at its next call.
    for (const present of await Promise.all(this.#sides.map((side) => side.present()))) await present.connected();
    await this.check();
    if (victim.endsWith("connector")) side.connector = null;
  }

  /** Compares what the senders were told, and are told now, with what recipients and server know. */
  async check(): Promise<void> {
    await this.#checkOne(0, 1);
    await this.#checkOne(1, 0);
    for (const side of this.#sides) side.check();
  }

  async #checkOne(from: number, to: number): Promise<void> {
    const { side, sent, claims } = this.#talkers[from]!, recipient = this.#sides[to]!;
    const fresh = sent.slice(this.#checked[from]);
    this.#checked[from] = sent.length;
    const host = await side.present();
    const recorded = new Map<string, string[]>();
    for (const { requestId } of fresh) recorded.set(requestId, await this.#events(requestId));
    const now: Claim[] = [];
    for (const { requestId } of fresh) {
      // A request of the connector may outlast the call that was cancelled.
      const { result } = await eventually(END_MS, `${requestId} is no longer sent`, async () => {
        const answer = await host.answer(host.call("delivery_status", { request_id: requestId }));
        return answer.result.structuredContent?.state === "sending" ? undefined : answer;
      });
      const state = result.structuredContent?.state;
      const processed = recorded.get(requestId)!.includes("processed");
      const known = state === undefined ? "not there" : `${state}`;
      assert(
        !processed || state === "processed" || state === undefined,
        `${requestId} is ${known}, and it was processed`,
      );
      if (state !== undefined) now.push({ requestId, state, by: "delivery_status" });
    }
    const list = await svcHere(this.agents.dir, ["sent", "--agent", side.name, "--limit", LISTED]);
    for (const { requestId, state } of list.messages) now.push({ requestId, state, by: "svc sent" });
    // What the recipient's host has shown by now is in an earlier line than this answer.
    const reader = await recipient.present();
    await reader.answer(reader.call("whoami"));
    const stored = recipient.stored();
    for (const claim of [...claims, ...now]) {
      const { requestId, state, by } = claim;
      const events = recorded.get(requestId);
      const view = `${by} says that ${requestId} is ${state}; the server has ${events}, the recipient ${
        JSON.stringify(stored.get(requestId) ?? null)
      }`;
      if (state === "processed") {
        assert(recipient.has(requestId), `${view}, and no answer has shown it`);
        // Its answer has told the sender, although the reader was killed before it could mark the message.
        const isTold = this.#talkers[to]!.answered.has(requestId);
        assert(isTold || stored.get(requestId)?.isRead, `${view}, where it is not read`);
      }
      if (state === "delivered") assert(stored.has(requestId), view);
      if (state === "queued" && events !== undefined) assert(events.includes("queued"), view);
      if (state === "queued" && stored.has(requestId)) this.counts.behind++;
      if (state === "refused" || state === "dead_lettered") this.#refused.add(requestId);
      if (state === "unknown" && by === "delivery_status") {
        this.counts.unknown++;
        if (stored.has(requestId)) this.counts.arrived++;
      }
      // No call is under way.
      if (by === "delivery_status" || by === "svc sent") assert(state !== "sending", view);
    }
    for (const [requestId, events] of recorded) {
      if (events.includes("acked")) assert(stored.has(requestId), `the server says that ${requestId} was taken`);
      if (events.includes("processed")) {
        assert(recipient.has(requestId), `the server says that ${requestId} was processed`);
      }
    }
    for (const requestId of this.#refused) {
      assert(!stored.has(requestId), `${requestId} was called refused, and is there`);
    }
    this.counts.messages += fresh.length;
    this.counts.claims += claims.length + now.length;
    this.#talkers[from]!.claims = [];
  }

  /** The events that the server has recorded of a message. */
  async #events(requestId: string): Promise<string[]> {
    const { deliveries } = await this.#ofServer(`/v1/admin/relay/deliveries?requestId=${requestId}`);
    return deliveries.flatMap(({ events }: { events: { event: string }[] }) => events.map(({ event }) => event));
  }

  #token: string | null = null;

  // deno-lint-ignore no-explicit-any
  async #ofServer(target: string): Promise<any> {
    const { url, place, apiKey } = this.agents.service;
    while (true) {
      this.#token ??= await fetch(`${place.registryUrl}/v1/admin/tokens`, {
        method: "POST",
        headers: { Authorization: `Bearer ${apiKey}` },
      }).then(async (answer) => (await answer.json()).token);
      const answer = await fetch(url + target, { headers: { Authorization: `Bearer ${this.#token}` } });
      const body = await answer.json();
      if (answer.ok) return body;
      // A token lasts for five minutes, and an admin may ask 600 times a minute.
      assert([401, 429].includes(answer.status), JSON.stringify(body));
      this.#token = null;
      if (answer.status === 429) await wait(Number(answer.headers.get("Retry-After")) * 1000);
    }
  }

  /** Sends what is `unknown` again, as `svc mcp` advises, and asserts that nothing that was accepted is lost. */
  async finish(): Promise<Counts> {
    for (const [from, talker] of this.#talkers.entries()) {
      const { side, sent } = talker, recipient = this.#sides[1 - from]!;
      const stateOf = async (requestId: string): Promise<MessageState | undefined> => {
        const host = await side.present();
        const { result } = await host.answer(host.call("delivery_status", { request_id: requestId }));
        return result.structuredContent?.state;
      };
      const accepted: string[] = [];
      for (const message of sent) {
        const { requestId } = message;
        await eventually(END_MS, `it is known how ${requestId} ended`, async () => {
          const state = await stateOf(requestId);
          if (state === "unknown") await talker.write(await side.present(), message);
          else if (state !== undefined && state !== "refused") accepted.push(requestId);
          return state !== "unknown" || undefined;
        });
      }
      await recipient.drain(accepted);
      for (const requestId of accepted) {
        let state: MessageState | undefined;
        await eventually(END_MS, `${requestId} is processed`, async () => {
          state = await stateOf(requestId);
          return state === "processed" || undefined;
        }).catch((error) => {
          throw new Error(`${error.message}, but ${state}`);
        });
      }
    }
    await this.check();
    this.counts.repeats = this.#sides.reduce((sum, side) => sum + side.repeats, 0);
    return this.counts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const side of this.#sides) await side[Symbol.asyncDispose]();
  }
}

/** Kills one process after another while messages flow in both directions. Asserts each time that no state is false. */
export async function killed(victims: readonly string[], trials: Trials): Promise<Counts> {
  await using agents = await PairedAgents.open(await bundledProgram(), MANY_STARTS, victims.includes("the server"));
  await using states = new States(agents, trials);
  for (const victim of victims) await states.kill(victim);
  return await states.finish();
}
