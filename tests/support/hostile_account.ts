/**
 * A process that misuses one account: a hundred agents with 400 sockets. Started with the path of a `HostileJob`; it prints
 * `started`, goes on until SIGTERM, and prints what the server answered. `burn` makes no request: it is the control, which only
 * uses as much CPU as an attack did.
 */
import { systemClock } from "../../shared/clock.ts";
import { fromBase64Url, utf8Bytes } from "../../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { systemRandom } from "../../shared/random.ts";
import { AgentClient, type AgentIdentity, ApiError, signedHeaders, UnreachableError } from "./agent_client.ts";
import { CONNECT, type HeaderLine, OPCODE, RawConnection, rawRequest, RawSocket, usualLines } from "./raw_http.ts";

/** An agent without its key object. Agent `n` below 50 is paired with agent `n + 50`. */
export interface StoredAgent extends Omit<AgentIdentity, "privateKey"> {
  seed: string;
}

export interface HostileJob {
  url: string;
  attack: AttackName;
  agents: readonly StoredAgent[];
  /** Share of one core that `burn` uses. */
  share: number;
}

const deps = { fetch, clock: systemClock, random: systemRandom };
const LARGE = JSON.stringify({ message: "x".repeat(250_000) });
const answers = new Map<string, number>();

function count(answer: string): void {
  answers.set(answer, (answers.get(answer) ?? 0) + 1);
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function forever(work: () => Promise<unknown>): Promise<never> {
  while (true) {
    try {
      await work();
    } catch (error) {
      count(
        error instanceof ApiError
          ? String(error.code)
          : error instanceof UnreachableError
          ? "no answer"
          : String(error),
      );
    }
    await pause(0);
  }
}

type Attack = (url: string, agents: AgentIdentity[], share: number) => void;

function upgrade(url: string, agent: AgentIdentity): Promise<HeaderLine[]> {
  const parts = { method: "GET", url, target: CONNECT };
  return signedHeaders(deps, agent, parts)
    .then((signed) => [...usualLines(url), ...Object.entries(signed), [HEADERS.access, agent.accessToken]]);
}

/** Opens a socket, and counts the refusal otherwise. */
async function open(url: string, agent: AgentIdentity): Promise<RawSocket | null> {
  const socket = await RawSocket.open(url, CONNECT, await upgrade(url, agent));
  if (socket instanceof RawSocket) return socket;
  count(`connect ${socket.status}`);
  await pause(100);
  return null;
}

/** Keeps a socket open for each of an agent's four, and does something with it until it closes. */
function onSockets(use: (socket: RawSocket) => Promise<unknown>): Attack {
  return (url, agents) => {
    for (const agent of agents.flatMap((one) => [one, one, one, one])) {
      void forever(async () => {
        const socket = await open(url, agent);
        if (!socket) return;
        let isOpen = true;
        void socket.closed.then((code) => {
          isOpen = false;
          count(`closed ${code}`);
        });
        // A socket that the server has reset fails at once: going on with it would keep this process from all else, SIGTERM too.
        while (isOpen && await use(socket) !== false);
      });
    }
  };
}

/** Sends large messages from the first 50 agents to their peers, as fast as they are answered. */
function messages(prefer?: "respond-async"): Attack {
  return (url, agents) => {
    for (const [n, agent] of agents.slice(0, 50).entries()) {
      const client = new AgentClient(deps, url, agent);
      const message = { recipientDid: agents[n + 50]?.did ?? "", payload: LARGE, ...prefer ? { prefer } : {} };
      for (let lane = 0; lane < 4; lane++) {
        void forever(async () => count((await client.sendMessage(message)).queued ? "queued" : "delivered"));
      }
    }
  };
}

const heartbeat = () =>
  JSON.stringify({ v: 1, id: "01KHYQ5H00AAAAAAAAAAAAAAAA", ts: new Date().toISOString(), type: "heartbeat" });
const FRAGMENT = new Uint8Array(1_048_576).fill(120);

const ATTACKS = {
  /** Each socket at half of the frames that one may send. */
  frames: onSockets(async (socket) => {
    await socket.send(OPCODE.text, heartbeat());
    await pause(40);
  }),
  garbage: onSockets((socket) => socket.send(OPCODE.text, "x".repeat(8_000))),
  /** 100 MB a second on one socket after the other. */
  fragments: (url, agents) =>
    void forever(async () => {
      const socket = await open(url, agents[Math.floor(Math.random() * agents.length)] as AgentIdentity);
      for (let isFirst = true; socket; isFirst = false) {
        if (!await socket.send(isFirst ? OPCODE.text : OPCODE.continuation, FRAGMENT, false)) break;
        await pause(10);
      }
      if (socket) count(`closed ${await socket.closed}`);
    }),
  /** Fills mailboxes of agents that are offline. */
  queues: messages("respond-async"),
  /** Messages to sockets that never acknowledge. */
  silence: (url, agents) => {
    onSockets(() => pause(100))(url, agents.slice(50), 0);
    messages()(url, agents, 0);
  },
  replays: (url, agents) => {
    const [agent, peer] = [agents[0], agents[50]] as [AgentIdentity, AgentIdentity];
    const target = "/hooks/agent";
    const signed = signedHeaders(deps, agent, { method: "POST", url, target, recipient: peer.did, body: "{}" });
    for (let lane = 0; lane < 64; lane++) {
      void forever(async () => {
        const headers = { ...await signed, [HEADERS.access]: agent.accessToken, "Content-Type": "application/json" };
        const answer = await fetch(url + target, { method: "POST", headers, body: "{}" });
        await answer.body?.cancel();
        count(String(answer.status));
      });
    }
  },
  connects: (url, agents) => {
    for (const agent of agents) void forever(async () => await (await open(url, agent))?.[Symbol.asyncDispose]());
  },
  /** 400 bodies of which a byte arrives each second. */
  bodies: (url) => {
    for (let lane = 0; lane < 400; lane++) {
      void forever(async () => {
        await using connection = await RawConnection.open(url);
        const head = [...usualLines(url).slice(0, 1), ["Content-Length", "250000"]] as HeaderLine[];
        await connection.send(rawRequest("POST", "/hooks/agent", [...head, ["Content-Type", "application/json"]]));
        while (await connection.send(utf8Bytes(" "))) await pause(1_000);
        count("ended");
      });
    }
  },
  burn: (_url, _agents, share) =>
    void forever(async () => {
      const began = performance.now();
      const busyMs = Math.min(share, 1) * 20;
      while (performance.now() - began < busyMs);
      await pause(20 - busyMs);
    }),
} satisfies Record<string, Attack>;

export type AttackName = keyof typeof ATTACKS;

if (import.meta.main) {
  const job = JSON.parse(await Deno.readTextFile(Deno.args[0] ?? "")) as HostileJob;
  const agents = await Promise.all(job.agents.map(async ({ seed, ...identity }) => {
    const { privateKey } = await keyPairFromSeed(fromBase64Url(seed) ?? new Uint8Array());
    return { ...identity, privateKey };
  }));
  globalThis.addEventListener("unhandledrejection", (event) => event.preventDefault());
  Deno.addSignalListener("SIGTERM", () => {
    console.log(JSON.stringify(Object.fromEntries(answers)));
    Deno.exit(0);
  });
  ATTACKS[job.attack](job.url, agents, job.share);
  console.log("started");
}
