/**
 * `svc demo` (D-162): two people, two agents, a pairing, a message, a receipt and a revocation on one machine, step by
 * step. It starts a server with a store in memory on a free loopback port, calls it over real HTTP and a real WebSocket,
 * and stops it.
 */
import type * as z from "zod";
import type { RegisterAnswer } from "../shared/protocol/api/agents.ts";
import { PairConfirmAnswer, PairStartAnswer } from "../shared/protocol/api/pairing.ts";
import { ReceiptAnswer, ReceiptList } from "../shared/protocol/api/receipts.ts";
import { HookAnswer } from "../shared/protocol/api/relay.ts";
import { toBase64Url } from "../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../shared/protocol/ed25519.ts";
import type { DeliverFrame } from "../shared/protocol/frames.ts";
import { ulidSource } from "../shared/protocol/ids.ts";
import { HEADERS } from "../shared/protocol/proof.ts";
import { maskSecret } from "../shared/protocol/secrets.ts";
import { toIso } from "../shared/protocol/time.ts";
import { sleep } from "../shared/clock.ts";
import { ApiError } from "../shared/client/errors.ts";
import { type Link, openLink } from "../shared/client/link.ts";
import { messageRequest } from "../shared/client/message_request.ts";
import type { ProxyRequest } from "../shared/client/proxy_caller.ts";
import { type Answer, callService } from "../shared/client/service_call.ts";
import { type AgentIdentity, signedHeaders } from "../shared/client/signed_headers.ts";
import { RegistryClient } from "./client/registry_client.ts";
import type { Context } from "./context.ts";
import type { Programs } from "./programs.ts";

/** Longest wait until the proxy knows of a revocation, milliseconds; the session ends at once. */
const REVOCATION_MS = 2_000;
const RETRY_MS = 50;

interface DemoAgent {
  answer: RegisterAnswer;
  identity: AgentIdentity;
}

/** Runs the demo. @throws the error of the step that failed */
export async function runDemo(ctx: Context, programs: Programs): Promise<void> {
  const began = ctx.clock.now();
  const story = new Story(ctx);
  const secret = toBase64Url(ctx.random.bytes(24));
  const variables = { PORT: "0", KV_URL: ":memory:", BOOTSTRAP_SECRET: secret };
  const server = await story.step("Registry and proxy start in one process", {
    proves: "one program is the whole service; it needs no account, container or cloud",
    run: () => programs.serve({ variables, purpose: "demo" }),
    shows: ({ address }) => [`address  ${address}`, "store    in memory"],
  });
  try {
    const code = await tell(ctx, story, secret, server.address);
    story.end(ctx.clock.now() - began, code);
  } finally {
    for (const link of story.links) link.close();
    await server.stop();
  }
}

/** Prints the steps as they end; with `--json` all of them at the end. */
class Story {
  readonly links: Link[] = [];
  readonly #ctx: Context;
  readonly #done: { step: string; proves: string; ms: number }[] = [];

  constructor(ctx: Context) {
    this.#ctx = ctx;
  }

  async step<T>(
    title: string,
    { proves, run, shows }: { proves: string; run: () => Promise<T>; shows: (result: T) => string[] },
  ): Promise<T> {
    const { clock, out } = this.#ctx;
    const began = clock.now();
    let result: T;
    try {
      result = await run();
    } catch (error) {
      out.note(`\n${out.red("✘")} ${title}`);
      throw error;
    }
    const ms = clock.now() - began;
    this.#done.push({ step: title, proves, ms });
    if (out.json) return result;
    out.result({}, [
      "",
      `${out.green("✔")} ${out.bold(title)}  (${ms} ms)`,
      `    ${out.dim(proves)}`,
      ...shows(result).map((line) => `    ${line}`),
    ]);
    return result;
  }

  end(ms: number, code: string): void {
    const seconds = (ms / 1000).toFixed(1);
    const last = `Done in ${seconds} s. The message of the revoked agent was refused with ${code}.`;
    this.#ctx.out.result({ steps: this.#done, seconds: Number(seconds), refusal: code }, ["", last]);
  }
}

async function tell(ctx: Context, story: Story, bootstrapSecret: string, url: string): Promise<string> {
  const registry = new RegistryClient(ctx, url);
  const admin = await story.step("Ada becomes the admin", {
    proves: "the bootstrap secret makes one admin, once",
    run: () => registry.bootstrap(bootstrapSecret, "Ada"),
    shows: (answer) => [
      `human    ${answer.human.displayName} (${answer.human.role})  ${answer.human.did}`,
      `API key  ${maskSecret(answer.apiKey.token)}, shown once`,
    ],
  });
  const { invite } = await story.step("Ada invites a second person", {
    proves: "people join by invite only",
    run: () => registry.createInvite(admin.apiKey.token),
    shows: (answer) => [`invite   ${maskSecret(answer.invite.code)}, works once`],
  });
  const bob = await story.step("Bob redeems the invite", {
    proves: "each person has an API key of their own",
    run: () => registry.redeemInvite(invite.code, "Bob"),
    shows: (answer) => [
      `human    ${answer.human.displayName} (${answer.human.role})  ${answer.human.did}`,
      `API key  ${maskSecret(answer.apiKey.token)}, shown once`,
    ],
  });
  const alpha = await story.step("Ada creates the agent alpha", {
    proves: "an agent has a key of its own, which never leaves its machine; the registry signs its identity",
    run: () => createAgent(ctx, registry, admin.apiKey.token, "alpha"),
    shows: aboutAgent,
  });
  const beta = await story.step("Bob creates the agent beta", {
    proves: "two agents of two people do not share a secret",
    run: () => createAgent(ctx, registry, bob.apiKey.token, "beta"),
    shows: aboutAgent,
  });

  const ask = agentCaller(ctx, url);
  const started = await story.step("alpha starts a pairing", {
    proves: "no agent can send to another one before both sides agree",
    run: () =>
      ask(alpha, PairStartAnswer, post("/pair/start", { initiatorProfile: { agentName: "alpha", humanName: "Ada" } })),
    shows: (answer) => [`ticket   ${answer.ticket.slice(0, 13)}…, until ${answer.expiresAt}`],
  });
  await story.step("beta confirms the ticket: the two agents trust each other now", {
    proves: "the ticket works once, and either side can end the pair",
    run: () => {
      const responderProfile = { agentName: "beta", humanName: "Bob" };
      return ask(beta, PairConfirmAnswer, post("/pair/confirm", { ticket: started.ticket, responderProfile }));
    },
    shows: ({ initiatorProfile: from, responderProfile: to }) => [
      `pair     ${from.agentName} of ${from.humanName} ↔ ${to.agentName} of ${to.humanName}`,
    ],
  });

  const newId = ulidSource(() => ctx.clock.now(), (n) => ctx.random.bytes(n));
  const arrived = Promise.withResolvers<DeliverFrame>();
  // The rejection is reported by the step that waits for the message.
  arrived.promise.catch(() => {});
  await story.step("beta's connector opens its WebSocket", {
    proves: "an agent behind NAT receives messages without an open port",
    run: async () => {
      const link = await openLink({ clock: ctx.clock, random: ctx.random, newId }, url, beta.identity, {
        deliver: (frame) => {
          arrived.resolve(frame);
          return Promise.resolve({ accepted: true });
        },
        closed: () => arrived.reject(new Error("the socket closed before the message came")),
      });
      story.links.push(link);
    },
    shows: () => [`address  ${url.replace("http", "ws")}/v1/relay/connect`],
  });

  const to = beta.identity.did;
  const payload = JSON.stringify({ message: "Hello beta, this is alpha." });
  const send = async (requestId: string) =>
    await ask(alpha, HookAnswer, await messageRequest({ to, payload, requestId }));
  const requestId = newId();
  await story.step("alpha sends a message", {
    proves: "the proxy makes nine checks: token, proof, time, nonce, revocation, trust, session and rate",
    run: () => send(requestId),
    shows: (answer) => [`answer   202 ${JSON.stringify(answer)}`],
  });
  const frame = await story.step("beta receives it, with the sender's identity in front", {
    proves: "the recipient knows who sent it without asking the sender",
    run: () => arrived.promise,
    shows: (received) => [
      `frame    ${received.type} ${received.id}, attempt ${received.attempt}`,
      ...String((JSON.parse(received.payload) as { message: string }).message).split("\n").map((line) =>
        `       │ ${line}`
      ),
    ],
  });
  await story.step("beta reports that it has processed it", {
    proves: "delivery and processing are two facts, and only the recipient can report the second",
    run: () =>
      ask(
        beta,
        ReceiptAnswer,
        post("/v1/relay/delivery-receipts", {
          requestId: frame.requestId,
          recipientAgentDid: to,
          status: "processed_by_svc",
          timestamp: toIso(ctx.clock.now()),
          senderAgentDid: frame.fromAgentDid,
        }),
      ),
    shows: ({ receipt }) => [`receipt  ${receipt.status} at ${receipt.receivedAt}`],
  });
  await story.step("alpha sees the receipt", {
    proves: "the sender can show that its message arrived",
    run: async () => {
      const query = new URLSearchParams({ requestId, recipientAgentDid: to });
      const target = `/v1/relay/delivery-receipts?${query}`;
      const { receipts } = await ask(alpha, ReceiptList, { method: "GET", target });
      if (receipts.length !== 1) throw new Error(`expected one receipt, saw ${receipts.length}`);
      return receipts;
    },
    shows: (receipts) => receipts.map((receipt) => `receipt  ${JSON.stringify(receipt)}`),
  });

  await story.step("Ada revokes alpha", {
    proves: "the owner ends an agent without the agent's help",
    run: () => registry.deleteAgent(admin.apiKey.token, alpha.answer.agent.id),
    shows: () => [`agent    ${alpha.identity.did} is revoked`],
  });
  const refused = await story.step("alpha's next message is refused", {
    proves: "a revocation takes effect within a second",
    run: () => refusalOf(ctx, () => send(newId())),
    shows: (error) => [`answer   ${error.status} ${error.code}: ${error.message}`],
  });
  return refused.code ?? `HTTP_${refused.status}`;
}

async function createAgent(ctx: Context, registry: RegistryClient, apiKey: string, name: string): Promise<DemoAgent> {
  const keys = await keyPairFromSeed(ctx.random.bytes(32));
  const answer = await registry.registerAgent(apiKey, keys, { name });
  const { privateKey } = keys;
  const { accessToken } = answer.agentAuth;
  return { answer, identity: { did: answer.agent.did, ait: answer.ait, privateKey, accessToken } };
}

function aboutAgent({ answer: { agent, agentAuth } }: DemoAgent): string[] {
  return [
    `agent    ${agent.name}  ${agent.did}`,
    `owner    ${agent.ownerDid}`,
    `token    AIT ${agent.currentJti}, valid until ${agent.expiresAt}`,
    `session  access ${maskSecret(agentAuth.accessToken)} until ${agentAuth.accessExpiresAt}`,
  ];
}

/** Returns the call of a route of the proxy as an agent. It has no file and no connector, so it signs each one itself. */
function agentCaller(ctx: Context, url: string) {
  return async <S extends z.ZodType>(
    { identity }: DemoAgent,
    response: S,
    request: ProxyRequest,
  ): Promise<Answer<S>> => {
    const { method, target, body, recipient, headers } = request;
    const signed = await signedHeaders(ctx, identity, {
      method,
      url,
      target,
      ...(body === undefined ? {} : { body }),
      ...(recipient === undefined ? {} : { recipient }),
    });
    return await callService(ctx, {
      method,
      url: url + target,
      headers: { ...signed, [HEADERS.access]: identity.accessToken, ...headers },
      ...(body === undefined ? {} : { body }),
      response,
    });
  };
}

function post(target: string, body: unknown): ProxyRequest {
  return { method: "POST", target, body: JSON.stringify(body) };
}

/**
 * Returns the refusal of a call by a revoked agent. The check of the session may refuse it before the proxy has the new
 * revocation list (D-235).
 *
 * @throws {Error} when the call succeeds, or fails in another way
 */
async function refusalOf(ctx: Context, call: () => Promise<unknown>): Promise<ApiError> {
  const until = ctx.clock.now() + REVOCATION_MS;
  for (;;) {
    const error = await call().then(() => new Error("the message of a revoked agent was accepted"), (cause) => cause);
    if (!(error instanceof ApiError && error.status === 401)) throw error;
    if (error.code === "PROXY_AUTH_REVOKED") return error;
    if (ctx.clock.now() > until) throw error;
    await sleep(ctx.clock, RETRY_MS);
  }
}
