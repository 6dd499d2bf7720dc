/**
 * `deno task demo`: two agents exchange a message on one machine, step by step. It starts registry and proxy in this
 * process on a free loopback port with a new store, calls them over real sockets, and removes the store at the end.
 */
import { startServer } from "../../deploy.ts";
import { AgentClient, type AgentIdentity, ApiError, type HttpDeps, RegistryClient } from "../support/agent_client.ts";
import { type Link, openLink } from "../../shared/client/link.ts";
import { sleep, systemClock } from "../../shared/clock.ts";
import type { RegisterAnswer } from "../../shared/protocol/api/agents.ts";
import { keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import type { DeliverFrame } from "../../shared/protocol/frames.ts";
import { ulidSource } from "../../shared/protocol/ids.ts";
import { maskSecret } from "../../shared/protocol/secrets.ts";
import { toBase64Url } from "../../shared/protocol/base64url.ts";
import { systemRandom } from "../../shared/random.ts";
import { silentLog } from "../../shared/server/log.ts";

const deps: HttpDeps = { fetch, clock: systemClock, random: systemRandom };
/** Longest wait for a revocation to reach the proxy, milliseconds. */
const REVOCATION_MS = 10_000;
const RETRY_MS = 50;
const newId = ulidSource(systemClock.now, systemRandom.bytes);

/**
 * Runs one step and prints its title, its duration and the lines of `describe`.
 *
 * @throws {StepFailed} when the step fails
 */
async function step<T>(title: string, run: () => Promise<T>, describe: (result: T) => string[]): Promise<T> {
  const began = performance.now();
  try {
    const result = await run();
    console.log(`\n✔ ${title}  (${(performance.now() - began).toFixed(1)} ms)`);
    for (const line of describe(result)) console.log(`    ${line}`);
    return result;
  } catch (error) {
    console.error(`\n✘ ${title}`);
    console.error(`    ${error instanceof ApiError ? `${error.code}: ${error.message}` : error}`);
    throw new StepFailed(title);
  }
}

class StepFailed extends Error {}

interface DemoAgent {
  answer: RegisterAnswer;
  identity: AgentIdentity;
}

async function createAgent(registry: RegistryClient, apiKey: string, name: string): Promise<DemoAgent> {
  const keys = await keyPairFromSeed(systemRandom.bytes(32));
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

async function story(bootstrapSecret: string, url: string, links: Link[]): Promise<void> {
  const registry = new RegistryClient(deps, url);

  const admin = await step("Ada becomes the admin", () => registry.bootstrap(bootstrapSecret, "Ada"), (answer) => [
    `human    ${answer.human.displayName} (${answer.human.role})  ${answer.human.did}`,
    `API key  ${maskSecret(answer.apiKey.token)}, shown once`,
  ]);
  const { invite } = await step(
    "Ada invites a second person",
    () => registry.createInvite(admin.apiKey.token),
    (answer) => [
      `invite   ${maskSecret(answer.invite.code)}, works once`,
    ],
  );
  const bob = await step("Bob redeems the invite", () => registry.redeemInvite(invite.code, "Bob"), (answer) => [
    `human    ${answer.human.displayName} (${answer.human.role})  ${answer.human.did}`,
    `API key  ${maskSecret(answer.apiKey.token)}, shown once`,
  ]);
  const alpha = await step(
    "Ada creates the agent alpha",
    () => createAgent(registry, admin.apiKey.token, "alpha"),
    aboutAgent,
  );
  const beta = await step(
    "Bob creates the agent beta",
    () => createAgent(registry, bob.apiKey.token, "beta"),
    aboutAgent,
  );

  const sender = new AgentClient(deps, url, alpha.identity);
  const recipient = new AgentClient(deps, url, beta.identity);
  const started = await step(
    "alpha starts a pairing",
    () => sender.pairStart({ agentName: "alpha", humanName: "Ada" }),
    (answer) => [`ticket   ${answer.ticket.slice(0, 13)}…, until ${answer.expiresAt}`],
  );
  await step(
    "beta confirms the ticket: the two agents trust each other now",
    () => recipient.pairConfirm(started.ticket, { agentName: "beta", humanName: "Bob" }),
    (answer) => [
      `pair     ${answer.initiatorProfile.agentName} of ${answer.initiatorProfile.humanName}` +
      ` ↔ ${answer.responderProfile.agentName} of ${answer.responderProfile.humanName}`,
    ],
  );

  const arrived = Promise.withResolvers<DeliverFrame>();
  await step("beta's connector opens its WebSocket", async () => {
    links.push(
      await openLink({ clock: systemClock, random: systemRandom, newId }, url, beta.identity, {
        deliver: (frame) => {
          arrived.resolve(frame);
          return Promise.resolve({ accepted: true });
        },
        closed: () => arrived.reject(new Error("the socket closed before the message came")),
      }),
    );
  }, () => [`address  ${url.replace("http", "ws")}/v1/relay/connect`]);

  const payload = JSON.stringify({ message: "Hello beta, this is alpha." });
  const sent = await step(
    "alpha sends a message",
    () => sender.sendMessage({ recipientDid: beta.identity.did, payload }),
    (answer) => [`answer   202 ${JSON.stringify(answer)}`],
  );
  const frame = await step(
    "beta receives it, with the sender's identity in front",
    () => arrived.promise,
    (received) => [
      `frame    ${received.type} ${received.id}, attempt ${received.attempt}`,
      ...String((JSON.parse(received.payload) as { message: string }).message).split("\n").map((line) =>
        `       │ ${line}`
      ),
    ],
  );
  await step("beta reports that it has processed it", () =>
    recipient.submitReceipt({
      requestId: frame.requestId,
      recipientAgentDid: beta.identity.did,
      status: "processed_by_svc",
      timestamp: new Date().toISOString(),
      senderAgentDid: frame.fromAgentDid,
    }), ({ receipt }) => [`receipt  ${receipt.status} at ${receipt.receivedAt}`]);
  await step("alpha sees the receipt", async () => {
    const { receipts } = await sender.receipts(sent.requestId, beta.identity.did);
    if (receipts.length !== 1) throw new Error(`expected one receipt, saw ${receipts.length}`);
    return receipts;
  }, (receipts) => receipts.map((receipt) => `receipt  ${JSON.stringify(receipt)}`));

  await step("Ada revokes alpha", () => registry.deleteAgent(admin.apiKey.token, alpha.answer.agent.id), () => [
    `agent    ${alpha.identity.did} is revoked`,
  ]);
  await step("alpha's next message is refused", async () => {
    const until = systemClock.now() + REVOCATION_MS;
    for (;;) {
      const error = await refusal(() => sender.sendMessage({ recipientDid: beta.identity.did, payload }));
      // The session ends at once; the proxy reads the new revocation list shortly after (D-235).
      if (error.code === "PROXY_AUTH_REVOKED") return error;
      if (systemClock.now() > until) throw error;
      await sleep(systemClock, RETRY_MS);
    }
  }, (error) => [`answer   ${error.status} ${error.code}: ${error.message}`]);
}

/** Returns the 401 error of a call. Throws when the call succeeds or fails in another way. */
async function refusal(call: () => Promise<unknown>): Promise<ApiError> {
  try {
    await call();
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return error;
    throw error;
  }
  throw new Error("the message of a revoked agent was accepted");
}

async function demo(): Promise<void> {
  const began = performance.now();
  console.log("svc: two people, two agents, one message, one receipt. All on this machine.");
  const folder = `.data/demo-${newId()}`;
  const secret = toBase64Url(systemRandom.bytes(24));
  const variables: Record<string, string> = { PORT: "0", KV_URL: `${folder}/svc.kv`, BOOTSTRAP_SECRET: secret };
  const links: Link[] = [];
  let failed = false;
  const server = await step(
    "Registry and proxy start in one process",
    () => startServer((name) => variables[name], silentLog),
    ({ address }) => [`address  ${address}`, `store    ${folder}/svc.kv, new, removed at the end`],
  );
  try {
    await story(secret, server.address, links);
    console.log(
      `\nDone in ${
        ((performance.now() - began) / 1000).toFixed(1)
      } s. To keep a server running: npx -y deno@${Deno.version.deno} task dev`,
    );
  } catch (error) {
    if (!(error instanceof StepFailed)) throw error;
    failed = true;
    console.error(`\nThe demo ends here: "${error.message}" failed.`);
  } finally {
    for (const link of links) link.close();
    await server.stop();
    await Deno.remove(folder, { recursive: true });
  }
  if (failed) Deno.exit(1);
}

try {
  await demo();
} catch (error) {
  if (!(error instanceof StepFailed)) throw error;
  Deno.exit(1);
}
