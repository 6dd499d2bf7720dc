/** Two connectors, and a peer that sends the programs of docs/agents.md payloads that a careless reader fails on. */
import { assert, assertEquals } from "@std/assert";
import { PairedAgents } from "../cli/connector/paired_agents.ts";
import type { RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram, ended } from "../cli/program.ts";
import type { Outcome } from "../cli/svc_runner.ts";
import { hostilePayloads } from "../support/hostile_payloads.ts";
import { block } from "../support/page_programs.ts";
import { eventually, within } from "../support/process.ts";

const END_MS = 300_000;

/** Which payloads a program gets: each n-th of the crafted ones (default: all), and `count` generated ones of a seed. */
export interface Fuzz {
  seed: number;
  count: number;
  step?: number;
}

/**
 * Sends one message to a peer, in a conversation of its own, as one unit of work for the loop guard. Returns false for one that the
 * proxy or, of a sealed one, the connector of the peer refuses, because a generated object may name message twice.
 */
async function say(connector: RunningConnector, to: object, payload: string, conversationId: string): Promise<boolean> {
  const members = JSON.stringify({ ...to, conversationId, prefer: "respond-async" });
  const response = await fetch(`${connector.file.url}/v1/outbound`, {
    method: "POST",
    headers: { Authorization: `Bearer ${connector.file.token}` },
    body: `${members.slice(0, -1)},"payload":${payload}}`,
  });
  const text = await response.text();
  const isRefused = response.status === 400 && text.includes("PROXY_HOOK_INVALID_JSON");
  assert(response.ok || isRefused, `${payload.slice(0, 80)}: ${response.status} ${text}`);
  return response.ok && JSON.parse(text).reason !== "payload_invalid";
}

/** Alpha and beta with their connectors. The program under test reads as beta, or asks as alpha. */
export class HostileReaders implements AsyncDisposable {
  private constructor(
    readonly agents: PairedAgents,
    readonly alpha: RunningConnector,
    readonly beta: RunningConnector,
  ) {}

  static async open(): Promise<HostileReaders> {
    const agents = await PairedAgents.open(await bundledProgram());
    return new HostileReaders(agents, await agents.connector("alpha"), await agents.connector("beta"));
  }

  /** Sends beta each payload. */
  async sendAll(name: string, { seed, count, step }: Fuzz): Promise<void> {
    for (const [n, payload] of hostilePayloads(seed, count, step).entries()) {
      await say(this.alpha, { to: "beta" }, payload, `${name}-${n}`);
    }
  }

  /** Waits until beta has read every message: LocalAgent marks a message read after its answer has left. */
  async allRead(): Promise<void> {
    await eventually(END_MS, "every message is read", async () => {
      const { messages } = await this.beta.json("GET", "/v1/inbox?limit=1");
      return messages.length === 0 || undefined;
    });
  }

  #asking(question: string): Deno.ChildProcess {
    const path = `${this.agents.dir}/ask.py`;
    Deno.writeTextFileSync(path, block("ask.py"));
    const options = {
      env: { SVC_CONFIG_DIR: this.agents.dir },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    } as const;
    return new Deno.Command("python3", { ...options, args: [path, "alpha", "beta", question] }).spawn();
  }

  /** Runs ask.py as alpha. */
  async ask(question: string): Promise<Outcome> {
    return await within(END_MS, "the answer", ended(this.#asking(question)));
  }

  /** ask.py asks once for each payload, and gets it as the answer. */
  async answerAll({ seed, count, step }: Fuzz): Promise<void> {
    for (const [n, payload] of hostilePayloads(seed, count, step).entries()) {
      const asking = this.#asking(`Question ${n}`);
      const question = await eventually(END_MS, "the question", async () => {
        const { messages } = await this.beta.json("GET", "/v1/inbox?wait=10");
        return messages[0];
      });
      assertEquals((await this.beta.json("POST", "/v1/inbox/read", { ids: [question.id] })).read, [question.id]);
      const reply = (text: string) => say(this.beta, { replyTo: question.id }, text, `ask-${n}`);
      try {
        // After a refusal, ask.py would wait for its answer in vain.
        assert(await reply(payload) || await reply('{"message":"refused"}'));
      } catch (error) {
        asking.kill();
        throw error;
      }
      const { code, stderr } = await within(END_MS, "the answer", ended(asking));
      assertEquals([code, stderr], [0, ""], payload.slice(0, 80));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of [this.alpha, this.beta, this.agents]) await one[Symbol.asyncDispose]();
  }
}
