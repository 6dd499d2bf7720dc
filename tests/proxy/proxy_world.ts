/**
 * A world whose proxy is compared with its own tables: an answer that the row of the route table does not allow fails
 * the test. Also tokens with any content, and steps that proxy tests share.
 */
import { assertEquals } from "@std/assert";
import type { ProxyDeps } from "../../proxy/deps.ts";
import { AUTHENTICATORS, PROXY_ROUTES } from "../../proxy/routes.ts";
import type { AitClaims } from "../../shared/protocol/signed/ait.ts";
import { fromBase64Url, toBase64Url } from "../../shared/protocol/base64url.ts";
import type { ErrorCode } from "../../shared/protocol/errors.ts";
import type { SigningKey } from "../../shared/protocol/signed/jws.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { errorsOf, type Route } from "../../shared/server/http/route.ts";
import { answered } from "../support/registry_world.ts";
import { withCheckedAnswers } from "../support/table_conformance.ts";
import { signedToken } from "../support/tokens.ts";
import { type TestAgent, World, type WorldOptions } from "../support/world.ts";

/** Opens a world whose answers are compared with the tables, with a rate limit that no test reaches by accident. */
export async function openProxy(options: WorldOptions = {}): Promise<World> {
  const w = await World.open({ ...options, proxy: { agentRequests: 1000, ...options.proxy } });
  checkAnswers(w);
  return w;
}

/** Restarts both services over the same store. */
export async function restart(w: World): Promise<void> {
  await w.start();
  checkAnswers(w);
}

function checkAnswers(w: World): void {
  const schemeOf = (row?: Route<ProxyDeps>) => row?.auth === "admin_token" ? "Bearer" : "Svc";
  w.proxy = withCheckedAnswers(w.proxy, { rowOf, codesOf, schemeOf });
}

/** The row that matches a request; the router accepts every encoding of a path's characters. */
function rowOf(method: string, path: string): Route<ProxyDeps> | undefined {
  const plain = path.replace(/%[2-7][0-9a-f]/gi, decodeURIComponent);
  return PROXY_ROUTES.find((row) => row.method === (method === "HEAD" ? "GET" : method) && row.path === plain);
}

/** Every code that a row can answer. */
export function codesOf(row: Route<ProxyDeps>): ErrorCode[] {
  return errorsOf(row, AUTHENTICATORS[row.auth as keyof typeof AUTHENTICATORS]);
}

/** The key that the registry signs with. */
export function registryKey(w: World): Promise<SigningKey> {
  return w.registry.deps.signing.current();
}

/** The claims of an AIT, unverified. */
export function claimsOf(ait: string): AitClaims {
  return JSON.parse(new TextDecoder().decode(fromBase64Url(ait.split(".")[1] ?? "") ?? new Uint8Array()));
}

/** An AIT of the agent that the registry signed, with changed claims; `undefined` removes one. */
export async function aitWith(w: World, agent: TestAgent, claims: Record<string, unknown> = {}): Promise<string> {
  const { kid, privateKey } = await registryKey(w);
  return await signedToken(
    { alg: "EdDSA", typ: "AIT", kid },
    { ...claimsOf(agent.identity.ait), ...claims },
    privateKey,
  );
}

/** The agent with another AIT. */
export function withAit(agent: TestAgent, ait: string): TestAgent {
  return { ...agent, identity: { ...agent.identity, ait } };
}

/** The agent with another access token. */
export function withAccess(agent: TestAgent, accessToken: string): TestAgent {
  return { ...agent, identity: { ...agent.identity, accessToken } };
}

/** L of Ed25519 as 32 bytes, little-endian. */
const L = 2n ** 252n + 27742317777372353535851937790883648493n;

/** The same signature with S + L, which a lenient verifier accepts. */
export function malleated(signature: string): string {
  const bytes = fromBase64Url(signature) ?? new Uint8Array();
  let s = L;
  for (let i = 0; i < 32; i++) s += BigInt(bytes[32 + i] ?? 0) << BigInt(8 * i);
  const changed = bytes.slice();
  for (let i = 0; i < 32; i++) changed[32 + i] = Number((s >> BigInt(8 * i)) & 255n);
  return toBase64Url(changed);
}

/** Sends a signed request with a JSON body. */
export async function post(w: World, agent: TestAgent, target: string, body: unknown): Promise<Response> {
  return await w.fetch(await w.signed(agent, { target, body: typeof body === "string" ? body : JSON.stringify(body) }));
}

/** Sends a signed request without a body. */
export async function get(w: World, agent: TestAgent, target: string): Promise<Response> {
  return await w.fetch(await w.signed(agent, { method: "GET", target }));
}

/** Keeps the proxy's requests for one path of the registry; a test can replace the answers. */
export class RegistryCalls {
  readonly asked: Request[] = [];
  /** Replaces the registry's own answer. */
  answer: ((request: Request) => Response | Promise<Response>) | null = null;

  constructor(readonly w: World, path: string) {
    w.registryAnswer = (request) => {
      if (new URL(request.url).pathname !== path) return null;
      this.asked.push(request.clone());
      return this.answer?.(request) ?? null;
    };
  }
}

/** Asserts that work ends once the clock has moved by `ms`, and not a millisecond before. Returns its result. */
export async function endsAfter<T>(w: World, ms: number, work: Promise<T>): Promise<T> {
  let isOver = false;
  const end = () => isOver = true;
  work.then(end, end);
  await w.clock.advance(ms - 1);
  assertEquals(isOver, false);
  await w.clock.advance(1);
  return await work;
}

/** Makes a ticket. */
export async function ticketOf(w: World, agent: TestAgent, more: Record<string, unknown> = {}): Promise<string> {
  const answer = await post(w, agent, "/pair/start", { initiatorProfile: PROFILE, ...more });
  return (await answered<{ ticket: string }>(answer)).ticket;
}

/** Confirms a ticket. */
export function confirm(w: World, agent: TestAgent, ticket: unknown, responderProfile: unknown = PROFILE) {
  return post(w, agent, "/pair/confirm", { ticket, responderProfile });
}

/** The body of a recipient's receipt for a message. */
export function receiptOf(w: World, { agent }: TestAgent, requestId: string) {
  const timestamp = toIso(w.clock.now());
  return { requestId, recipientAgentDid: agent.did, status: "processed_by_svc", timestamp };
}

/** The profile that an agent sends when it pairs. */
export const PROFILE = { agentName: "alpha", humanName: "Ada" };
