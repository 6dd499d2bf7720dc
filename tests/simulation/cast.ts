/**
 * The participants of a simulation, as their own machines know them, and the project's clients with which they call.
 */
import { AgentClient, ApiError, RegistryClient, signedHeaders, UnreachableError } from "../support/agent_client.ts";
import type { Agent } from "../../shared/protocol/api/agents.ts";
import type { KeyPair } from "../../shared/protocol/ed25519.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { PROXY_URL, REGISTRY_URL } from "../support/world.ts";
import type { Call, Simulation } from "./simulation.ts";

export interface Person {
  name: string;
  apiKey: string;
}

/** An agent as its own machine knows it. */
export interface Actor {
  name: string;
  owner: Person;
  agent: Agent;
  keys: KeyPair;
  ait: string;
  accessToken: string;
  /** Refresh tokens, newest last. */
  refreshTokens: string[];
  /** The last refresh got no answer. */
  isUnsure: boolean;
}

export interface Message {
  name: string;
  from: Actor;
  to: Actor;
  requestId: string;
}

export interface Cast {
  people: Person[];
  actors: Actor[];
  invites: { name: string; code: string }[];
  tickets: { name: string; ticket: string; by: Actor; confirmed: boolean }[];
  messages: Message[];
  /** Operations that complete a run. */
  ending: ((sim: Simulation) => Promise<void>)[];
}

export const identityOf = ({ agent, ait, keys, accessToken }: Actor) => ({
  did: agent.did,
  ait,
  privateKey: keys.privateKey,
  accessToken,
});

export function registry(sim: Simulation, call: Call): RegistryClient {
  return new RegistryClient({ ...sim.deps, fetch: sim.fetch(call) }, REGISTRY_URL);
}

export function agentClient(sim: Simulation, actor: Actor, call: Call): AgentClient {
  return new AgentClient({ ...sim.deps, fetch: sim.fetch(call) }, PROXY_URL, identityOf(actor));
}

/** Sends a signed request that the client has no method for. */
export async function signed(
  sim: Simulation,
  actor: Actor,
  call: Call,
  method: string,
  target: string,
  body?: string,
  more: Record<string, string> = {},
): Promise<Response | null> {
  const request = { method, url: PROXY_URL, target, ...(body === undefined ? {} : { body }) };
  const headers = {
    ...await signedHeaders(sim.deps, identityOf(actor), request),
    ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    [HEADERS.access]: actor.accessToken,
    ...more,
  };
  try {
    return await sim.fetch(call)(PROXY_URL + target, { method, headers, body: body ?? null });
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}

/** Returns an answer, or `null` for a refusal or no answer. */
export async function tried<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError || error instanceof UnreachableError) return null;
    throw error;
  }
}

/** Registers a secret that was returned, under its name. */
export function keep(sim: Simulation, secret: string, name: string): string {
  sim.name(secret, name, true);
  return secret;
}
