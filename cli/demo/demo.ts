/**
 * `svc demo` shows on one machine, step by step, how two people create agents, pair them, send a message, get a
 * receipt, ask a question and revoke an agent. It starts a server with a store in memory on a free loopback port, calls
 * it over real HTTP and real WebSockets, stops it, and removes the files of the agents.
 */
import type { BootstrapAnswer } from "../../shared/protocol/api/accounts.ts";
import { PairConfirmAnswer, PairStartAnswer } from "../../shared/protocol/api/pairing.ts";
import { ReceiptAnswer, ReceiptList } from "../../shared/protocol/api/receipts.ts";
import { HookAnswer } from "../../shared/protocol/api/relay.ts";
import { sha256, toBase64Url } from "../../shared/protocol/base64url.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import type { DeliverFrame } from "../../shared/protocol/frames.ts";
import { ulidSource } from "../../shared/protocol/ids.ts";
import { readMessageProof, sentBody } from "../../shared/protocol/message_proof.ts";
import { parseReceipt, signReceipt, verifyReceipt } from "../../shared/protocol/receipt_token.ts";
import { maskSecret } from "../../shared/protocol/secrets.ts";
import { toIso, unixSeconds } from "../../shared/protocol/time.ts";
import { sleep } from "../../shared/clock.ts";
import { ApiError } from "../../shared/client/errors.ts";
import { get, post } from "../../shared/client/local_client.ts";
import { LocalPeers } from "../../shared/client/local_shapes.ts";
import { openLink } from "../link/link.ts";
import { messageRequest } from "../link/message_request.ts";
import { RegistryClient } from "../client/registry_client.ts";
import { onStop } from "../terminal/interrupt.ts";
import type { Context, Programs, RunningProgram } from "../context.ts";
import { CliError } from "../errors.ts";
import { aboutAgent, callAs, callConnector, newDemoAgent } from "./demo_agent.ts";
import { Story } from "./story.ts";
import { resolve } from "node:path";
import { reason } from "../files/private_files.ts";

/** Longest wait until the proxy knows of a revocation, milliseconds. With less, the demo fails on a busy machine. */
const REVOCATION_MS = 2_000;
const RETRY_MS = 50;

/**
 * Runs the demo, and cleans up after it.
 *
 * @param tempDir the folder in which the files of the agents are; default: that of the system for temporary files
 * @throws the error of the step that failed; {@linkcode CliError} `CLI_INTERRUPTED`
 */
export async function runDemo(ctx: Context, programs: Programs, tempDir: string | undefined): Promise<void> {
  const began = ctx.clock.now();
  const interrupted = Promise.withResolvers<never>();
  // Only a step waits for this promise, so without a handler a rejection between two steps would end the process.
  interrupted.promise.catch(() => {});
  const story = new Story(ctx, interrupted.promise);
  await using stack = new AsyncDisposableStack();
  const stop = () => interrupted.reject(new CliError("CLI_INTERRUPTED", "The demo was interrupted", { fix: "" }));
  stack.defer(onStop(ctx, stop));
  const folder = makeDemoFolder(tempDir);
  stack.defer(() => removeDemoFolder(ctx, folder));
  stack.defer(() => story.settle());
  const secret = toBase64Url(ctx.random.bytes(24));
  const variables = { PORT: "0", KV_URL: ":memory:", BOOTSTRAP_SECRET: secret };
  const { address } = await story.step("Registry and proxy start in one process", {
    proves: "one program is the whole service; it needs no account, container or cloud",
    run: () => {
      const starting = programs.serve({ variables, purpose: "demo" });
      // The stop is registered while the server still starts, because an interruption would otherwise leave it running.
      stack.defer(() => starting.then((server) => server.stop(), () => {}));
      return starting;
    },
    shows: (server: RunningProgram) => [`address  ${server.address}`, "store    in memory"],
  });
  const code = await runSteps(ctx, story, { bootstrapSecret: secret, url: address, folder, stack });
  story.end(ctx.clock.now() - began, code);
}

interface Place {
  bootstrapSecret: string;
  url: string;
  folder: string;
  /** Ends what the steps open. */
  stack: AsyncDisposableStack;
}

async function runSteps(ctx: Context, story: Story, { bootstrapSecret, url, folder, stack }: Place): Promise<string> {
  const registry = new RegistryClient(ctx, url);
  const admin = await story.step("Ada becomes the admin", {
    proves: "the bootstrap secret makes one admin, once",
    run: () => registry.bootstrap(bootstrapSecret, "Ada"),
    shows: aboutPerson,
  });
  const { invite } = await story.step("Ada invites a second person", {
    proves: "people join by invite only",
    run: () => registry.createInvite(admin.apiKey.token),
    shows: (answer) => [`invite   ${maskSecret(answer.invite.code)}, works once`],
  });
  const bob = await story.step("Bob redeems the invite", {
    proves: "each person has an API key of their own",
    run: () => registry.redeemInvite(invite.code, "Bob"),
    shows: aboutPerson,
  });
  const alpha = await story.step("Ada creates the agent alpha", {
    proves: "an agent has a key of its own, which never leaves its machine; the registry signs its identity",
    run: () => newDemoAgent(ctx, { name: "Ada", apiKey: admin.apiKey.token }, { name: "alpha", url, parent: folder }),
    shows: aboutAgent,
  });
  const beta = await story.step("Bob creates the agent beta", {
    proves: "two agents of two people do not share a secret",
    run: () => newDemoAgent(ctx, { name: "Bob", apiKey: bob.apiKey.token }, { name: "beta", url, parent: folder }),
    shows: aboutAgent,
  });

  const started = await story.step("alpha starts a pairing", {
    proves: "no agent can send to another one before both sides agree",
    run: () => callConnector(alpha, PairStartAnswer, post("/v1/pair/start", {})),
    shows: (answer) => [`ticket   ${answer.ticket.slice(0, 13)}…, until ${answer.expiresAt}`],
  });
  await story.step("beta confirms the ticket: the two agents trust each other now", {
    proves: "the ticket works once; with its second secret both prove their keys, so no server chooses them",
    run: async () => {
      const confirm = post("/v1/pair/confirm", { ticket: started.ticket });
      const answer = await callConnector(beta, PairConfirmAnswer, confirm);
      // alpha keeps the key that beta has proven when it reads of the pair.
      const { peers } = await callConnector(alpha, LocalPeers, get("/v1/peers"));
      if (!peers.every(({ how }) => how === "ticket")) throw new Error("beta did not prove its key");
      return answer;
    },
    shows: ({ initiatorProfile: from, responderProfile: to }) => [
      `pair     ${from.agentName} of ${from.humanName} ↔ ${to.agentName} of ${to.humanName}, keys proven to each other`,
    ],
  });

  const newId = ulidSource(() => ctx.clock.now(), (n) => ctx.random.bytes(n));
  const arrived = Promise.withResolvers<DeliverFrame>();
  // The step that waits reports a rejection. Without this handler, one that comes earlier would end the process.
  arrived.promise.catch(() => {});
  const link = await story.step("beta's connector opens its WebSocket", {
    proves: "an agent behind NAT receives messages without an open port",
    run: () => {
      const opening = openLink({ clock: ctx.clock, random: ctx.random, newId }, url, beta.identity, {
        deliver: (frame) => {
          arrived.resolve(frame);
          return Promise.resolve({ accepted: true });
        },
        closed: () => arrived.reject(new Error("the socket closed before the message came")),
      });
      stack.defer(() => opening.then((opened) => opened.close(), () => {}));
      return opening;
    },
    shows: () => [`address  ${url.replace("http", "ws")}/v1/relay/connect`],
  });

  const to = beta.identity.did;
  const payload = JSON.stringify({ message: "Hello beta, this is alpha." });
  const send = async (requestId: string) =>
    // In the clear, so that the next step can show the proxy's frame. The connectors of the second act seal messages.
    await callAs(alpha, HookAnswer, await messageRequest({ to, payload, requestId }, null));
  const requestId = newId();
  await story.step("alpha sends a message", {
    proves: "the proxy makes nine checks: token, its expiry, time, proof, nonce, revocation, trust, session and rate",
    run: () => send(requestId),
    shows: (answer) => [`answer   202 ${JSON.stringify(answer)}`],
  });
  const frame = await story.step("beta receives it, with the sender's identity in front", {
    proves: "the recipient knows who sent it without asking the sender",
    run: () => arrived.promise,
    shows: (received) => [
      `frame    ${received.type} ${received.id}, attempt ${received.attempt}`,
      ...(JSON.parse(received.payload) as { message: string }).message.split("\n").map((line) => `       │ ${line}`),
    ],
  });
  await story.step("beta reports that it has processed it", {
    proves: "delivery and processing are two facts, and only the recipient can sign the second",
    run: async () => {
      const { requestId, fromAgentDid: senderAgentDid } = frame, status = "processed_by_svc" as const;
      const proof = readMessageProof(frame.proof), body = proof && sentBody(frame.payload, proof.edit);
      if (proof === null || body === null) throw new Error("the message has no proof of its sender");
      const claims = {
        ...{ iss: to, sub: senderAgentDid, jti: newId(), iat: unixSeconds(ctx.clock.now()), requestId, status },
        ...{ nonce: proof.nonce, bodySha256: await sha256(body) },
      };
      const signed = await signReceipt(claims, await beta.folder.keys());
      const timestamp = toIso(ctx.clock.now());
      const said = { requestId, recipientAgentDid: to, senderAgentDid, status, timestamp, signed };
      return await callAs(beta, ReceiptAnswer, post("/v1/relay/delivery-receipts", said));
    },
    shows: ({ receipt }) => [`receipt  ${receipt.status} at ${receipt.receivedAt}`],
  });
  await story.step("alpha sees the receipt", {
    proves: "the sender can show that its message arrived, without the word of the server",
    run: async () => {
      const query = new URLSearchParams({ requestId, recipientAgentDid: to });
      const target = `/v1/relay/delivery-receipts?${query}`;
      const { receipts } = await callAs(alpha, ReceiptList, { method: "GET", target });
      const [receipt, ...others] = receipts;
      if (receipt === undefined || others.length > 0) throw new Error(`expected one receipt, saw ${receipts.length}`);
      const jws = parseReceipt(receipt.signed ?? "");
      if (jws.kid !== (await beta.folder.keys()).publicKey) throw new Error("the receipt has another key than beta");
      return await verifyReceipt(jws);
    },
    shows: ({ status, iss }) => [`receipt  ${status}, signed by ${iss}`],
  });

  // Closed, because the connector of the second act opens a link of its own for beta.
  link.close();

  // Imported only here, because it loads the MCP library, which the steps before do not need.
  const { askOverMcp } = await import("./question.ts");
  await askOverMcp(story, { alpha, beta });

  await story.step("Ada revokes alpha", {
    proves: "the owner ends an agent without the agent's help",
    run: () => registry.deleteAgent(admin.apiKey.token, parseDid(alpha.identity.did)?.id ?? ""),
    shows: () => [`agent    ${alpha.identity.did} is revoked`],
  });
  const refused = await story.step("alpha's next message is refused", {
    proves: "a revocation takes effect within a second",
    run: () => refusalOf(ctx, () => send(newId())),
    shows: (error) => [`answer   ${error.status} ${error.code}: ${error.message}`],
  });
  return refused.code ?? `HTTP_${refused.status}`;
}

function aboutPerson({ human, apiKey }: Pick<BootstrapAnswer, "human" | "apiKey">): string[] {
  return [
    `human    ${human.displayName} (${human.role})  ${human.did}`,
    `API key  ${maskSecret(apiKey.token)}, shown once`,
  ];
}

/**
 * Returns the refusal of a call by a revoked agent. Until the proxy has the new revocation list, another check may
 * refuse the call: that of the session, or that of the pair, which is removed with the agent. So the call is repeated
 * until the refusal is about the revocation, for at most 2 s.
 *
 * @throws {Error} when the call succeeds, or fails in another way
 */
async function refusalOf(ctx: Context, call: () => Promise<unknown>): Promise<ApiError> {
  const until = ctx.clock.now() + REVOCATION_MS;
  for (;;) {
    const error = await call().then(() => new Error("the message of a revoked agent was accepted"), (cause) => cause);
    if (!(error instanceof ApiError)) throw error;
    if (error.code === "PROXY_AUTH_REVOKED") return error;
    if (error.status !== 401 && error.code !== "PROXY_AUTH_FORBIDDEN") throw error;
    if (ctx.clock.now() > until) throw error;
    await sleep(ctx.clock, RETRY_MS);
  }
}

const PREFIX = "svc-demo-";

/**
 * Creates a folder of its own for the demo.
 *
 * @param parent the folder that holds it, created if it is absent; default: that of the system for temporary files
 * @throws {CliError} `CLI_SAVE_FAILED`
 */
function makeDemoFolder(parent: string | undefined): string {
  try {
    if (parent !== undefined) Deno.mkdirSync(parent, { recursive: true, mode: 0o700 });
    return resolve(Deno.makeTempDirSync({ prefix: PREFIX, ...parent === undefined ? {} : { dir: parent } }));
  } catch (error) {
    const where = parent ?? "the system's folder for temporary files";
    throw new CliError("CLI_SAVE_FAILED", `No folder could be created in ${where}: ${reason(error)}`, {
      fix: "Name a folder that you may write to with --temp-dir.",
      cause: error,
    });
  }
}

/** Removes the folder. A failure is only a warning, because the result of the demo is already known. */
async function removeDemoFolder({ clock, out }: Pick<Context, "clock" | "out">, path: string): Promise<void> {
  for (let tries = 1;; tries++) {
    try {
      return await Deno.remove(path, { recursive: true });
    } catch (error) {
      // Tried again, because removing a folder fails when a closing database removes its own journal meanwhile.
      if (tries < REMOVE_TRIES) await sleep(clock, REMOVE_AGAIN_MS);
      else return out.warn(`${path} could not be removed: ${reason(error)}`);
    }
  }
}

const REMOVE_TRIES = 5, REMOVE_AGAIN_MS = 100;
