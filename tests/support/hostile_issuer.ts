/**
 * A process that is the registry of another server and misuses it (D-280). Started with the path of an `IssuerJob`: it pairs one
 * agent with the ticket, prints `started`, goes on until SIGTERM, and prints what the server answered. `burn` makes no request: it
 * is the control, which only uses as much CPU as an attack did.
 */
import { systemClock } from "../../shared/clock.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { provePairKey } from "../../shared/protocol/pair_key.ts";
import { canonicalProof, HEADERS } from "../../shared/protocol/proof.ts";
import { systemRandom } from "../../shared/random.ts";
import { signedHeaders } from "./agent_client.ts";
import { type ForeignAgent, ForeignIssuer } from "./foreign_issuer.ts";

export interface IssuerJob {
  /** The server that it visits. */
  url: string;
  /** Its own origin, http on loopback. */
  issuer: string;
  /** With its pair secret. */
  ticket: string;
  /** DID of the agent that made it. */
  recipient: string;
  attack: IssuerAttack;
  /** Share of one core that `burn` uses. */
  share: number;
}

export const ISSUER_ATTACKS = [
  "strangers",
  "visits",
  "bad_proofs",
  "unknown_keys",
  "confirmations",
  "long_lists",
  "new_lists",
  "slow_answers",
  "no_answers",
  "dids_of_others",
] as const;
export type IssuerAttack = (typeof ISSUER_ATTACKS)[number] | "burn";

const deps = { clock: systemClock, random: systemRandom };
const PROFILE = { agentName: "beta", humanName: "Bob" };
const answers = new Map<string, number>();
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export class Hostile {
  /** Answers in place of the documents. */
  answer: ((path: string) => Response | null | Promise<never>) | null = null;

  constructor(readonly job: IssuerJob, readonly issuer: ForeignIssuer) {}

  serve(): void {
    const { hostname, port } = new URL(this.job.issuer);
    Deno.serve({ hostname, port: Number(port), onListen: () => {} }, async (request) => {
      return await this.answer?.(new URL(request.url).pathname) ?? await this.issuer.abroad.send(request);
    });
  }

  agent(more: { did?: string; jti?: string } = {}): Promise<ForeignAgent> {
    return this.issuer.agent("beta", this.job.url, more);
  }

  /** Posts as an agent, and counts the answer. */
  async post(
    agent: ForeignAgent,
    target: string,
    body: unknown,
    { recipient, headers = {} }: { recipient?: string; headers?: Record<string, string> } = {},
  ): Promise<string> {
    const { url } = this.job, text = JSON.stringify(body);
    const parts = { method: "POST", url, target, body: text, ...recipient === undefined ? {} : { recipient } };
    const signed = await signedHeaders(deps, agent.identity, parts);
    const response = await fetch(url + target, {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        ...signed,
        [HEADERS.access]: agent.identity.accessToken,
        ...headers,
      },
      body: text,
    }).catch(() => null);
    const said = await response?.json().catch(() => null);
    const answer = response === null ? "no answer" : `${response.status} ${said?.error?.code ?? ""}`.trim();
    answers.set(answer, (answers.get(answer) ?? 0) + 1);
    return answer;
  }

  message(agent: ForeignAgent, headers: Record<string, string> = {}): Promise<string> {
    return this.post(agent, "/hooks/agent", { message: "x" }, { recipient: this.job.recipient, headers });
  }

  async pair(agent: ForeignAgent): Promise<void> {
    const [first = "", secret = "", ...rest] = this.job.ticket.split(".");
    const side = { role: "responder", did: agent.agent.did, profile: PROFILE } as const;
    const responderKey = await provePairKey(secret, side, agent.keys.publicKey);
    const ticket = [first, "-", ...rest].join(".");
    const answer = await this.post(agent, "/pair/confirm", { ticket, responderProfile: PROFILE, responderKey });
    if (answer !== "201") throw new Error(`Not paired: ${answer}`);
  }
}

/** What each attack does again and again, eight at a time. `paired` may write to the recipient. */
type Attack = (hostile: Hostile, paired: ForeignAgent) => (n: number) => Promise<unknown>;

const ATTACKS: Readonly<Record<(typeof ISSUER_ATTACKS)[number], Attack>> = {
  strangers: (hostile) => async () => await hostile.message(await hostile.agent()),
  visits: (hostile, paired) => async () =>
    await hostile.message(paired, {
      [HEADERS.access]: await hostile.issuer.visit(paired, { aud: hostile.job.url }),
    }),
  bad_proofs: (hostile, paired) => () => hostile.message(paired, { [HEADERS.proof]: "A".repeat(86) }),
  unknown_keys: (hostile, paired) => {
    hostile.answer = (path) =>
      !path.endsWith("svc-keys.json") ? null : Response.json({
        keys: Array.from({ length: 200 }, (_, i) => ({
          ...{ kid: `k${i}`, kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig", status: "active" },
          x: paired.keys.publicKey,
        })),
      });
    return () => hostile.message(paired);
  },
  confirmations: (hostile, paired) => (n) =>
    hostile.post(paired, "/pair/confirm", {
      ticket: hostile.job.ticket.replace(/_.{8}/, `_${String(n).padStart(8, "A")}`).replace(/\.[^.]+\./, ".-."),
      responderProfile: PROFILE,
    }),
  long_lists: (hostile, paired) => {
    hostile.answer = (path) => path === "/v1/crl" ? new Response(new Uint8Array(52_428_800).fill(32)) : null;
    return () => hostile.message(paired);
  },
  new_lists: (hostile, paired) => {
    const { issuer } = hostile;
    for (let i = 0; i < 30_000; i++) {
      const did = `did:svc:${issuer.authority}:agent:${issuer.newId()}`;
      issuer.revoke({ agent: { did, name: "" }, jti: issuer.newId() });
    }
    return () => hostile.message(paired);
  },
  slow_answers: (hostile, paired) => {
    hostile.answer = () =>
      new Response(
        new ReadableStream({ pull: (to) => pause(1_000).then(() => to.enqueue(new Uint8Array([32]))) }),
      );
    return () => hostile.message(paired);
  },
  no_answers: (hostile, paired) => {
    hostile.answer = () => new Promise(() => {});
    return () => hostile.message(paired);
  },
  dids_of_others: (hostile, paired) => async (n) => {
    const of = [
      `did:svc:127.0.0.1:agent:${hostile.issuer.newId()}`,
      hostile.job.recipient,
      "did:svc:c.example:agent:01KHYQ5H00AAAAAAAAAAAAAAAA",
      paired.agent.did.replace(/[^:]+$/, hostile.job.recipient.split(":").at(-1) ?? ""),
    ];
    return await hostile.message(await hostile.agent({ did: of[n % of.length] ?? "", jti: hostile.issuer.newId() }));
  },
};

async function burn(share: number): Promise<never> {
  const proof = utf8Bytes(canonicalProof.toString());
  while (true) {
    const began = performance.now();
    while (performance.now() - began < 20 * share) await crypto.subtle.digest("SHA-256", proof);
    await pause(20 * (1 - Math.min(share, 1)));
  }
}

if (import.meta.main) {
  const job: IssuerJob = JSON.parse(await Deno.readTextFile(Deno.args[0] ?? ""));
  const hostile = new Hostile(job, await ForeignIssuer.open(systemClock, job.issuer));
  Deno.addSignalListener("SIGTERM", () => {
    console.log(JSON.stringify(Object.fromEntries(answers)));
    Deno.exit(0);
  });
  if (job.attack === "burn") {
    console.log("started");
    await burn(job.share);
  } else {
    hostile.serve();
    const paired = await hostile.agent();
    await hostile.pair(paired);
    answers.clear();
    const again = ATTACKS[job.attack](hostile, paired);
    console.log("started");
    let n = 0;
    const loop = async () => {
      while (true) await again(n++).catch(() => {});
    };
    await Promise.all(Array.from({ length: 8 }, loop));
  }
}
