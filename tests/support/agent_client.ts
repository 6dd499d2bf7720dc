/**
 * The proxy's client for an agent: one method for each route, each request signed again. It follows no redirect, does
 * not retry and stores nothing. Also the one module from which to import both services' clients.
 */
import type * as z from "zod";
import * as pairing from "../../shared/protocol/api/pairing.ts";
import * as receipts from "../../shared/protocol/api/receipts.ts";
import * as relay from "../../shared/protocol/api/relay.ts";
import { type NewId, ulidSource } from "../../shared/protocol/ids.ts";
import { messageTarget } from "../../shared/protocol/message_context.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { RegistryClient as Client, type WantedAgent } from "../../cli/client/registry_client.ts";
import type { RegisterAnswer } from "../../shared/protocol/api/agents.ts";
import type { KeyPair } from "../../shared/protocol/ed25519.ts";
import { type Answer, callService, type HttpDeps } from "../../cli/link/service_call.ts";
import { type AgentIdentity, signedHeaders } from "../../cli/link/signed_headers.ts";

export type { HttpDeps } from "../../cli/link/service_call.ts";
export { ApiError, UnreachableError } from "../../shared/client/errors.ts";
export { type AgentIdentity, signedHeaders } from "../../cli/link/signed_headers.ts";

/** The client of the registry. */
export class RegistryClient extends Client {
  /** Registers an agent by challenge and proof. */
  async registerAgent(apiKey: string, keys: KeyPair, wanted: WantedAgent): Promise<RegisterAnswer> {
    return await this.answerChallenge(apiKey, keys, wanted, await this.challenge(apiKey, keys.publicKey));
  }
}

/** A message to send. */
export interface OutboundMessage {
  recipientDid: string;
  /** JSON text. */
  payload: string;
  requestId?: string;
  conversationId?: string;
  /** Request ID of the message that this one answers. */
  inReplyTo?: string;
  auto?: true;
  /** `respond-async`: the message may wait for an offline recipient (D-68). */
  prefer?: "respond-async";
}

export class AgentClient {
  readonly #newId: NewId;

  constructor(readonly deps: HttpDeps, readonly proxyUrl: string, readonly agent: AgentIdentity) {
    this.#newId = ulidSource(() => deps.clock.now(), (n) => deps.random.bytes(n));
  }

  /** Sends a message with a signed context (D-140). */
  async sendMessage(message: OutboundMessage): Promise<relay.HookAnswer> {
    const { recipientDid, payload, requestId = this.#newId(), conversationId, inReplyTo, auto, prefer } = message;
    const headers = {
      "Content-Type": "application/json",
      [HEADERS.requestId]: requestId,
      ...(conversationId === undefined ? {} : { [HEADERS.conversationId]: conversationId }),
      ...(inReplyTo === undefined ? {} : { [HEADERS.inReplyTo]: inReplyTo }),
      ...(auto ? { [HEADERS.auto]: "1" } : {}),
      ...(prefer === undefined ? {} : { Prefer: prefer }),
    };
    const target = await messageTarget(headers);
    return await this.#call("POST", target, relay.HookAnswer, payload, recipientDid, headers);
  }

  pairStart(
    initiatorProfile: pairing.PairingProfile,
    ttlSeconds?: number,
    initiatorKey?: pairing.PairKey,
  ): Promise<pairing.PairStartAnswer> {
    return this.#call(
      "POST",
      "/pair/start",
      pairing.PairStartAnswer,
      JSON.stringify({ initiatorProfile, ttlSeconds, initiatorKey }),
    );
  }

  pairConfirm(ticket: string, responderProfile: pairing.PairingProfile): Promise<pairing.PairConfirmAnswer> {
    return this.#call("POST", "/pair/confirm", pairing.PairConfirmAnswer, JSON.stringify({ ticket, responderProfile }));
  }

  pairStatus(ticket: string): Promise<pairing.PairStatusAnswer> {
    return this.#call("POST", "/pair/status", pairing.PairStatusAnswer, JSON.stringify({ ticket }));
  }

  submitReceipt(receipt: z.input<typeof receipts.ReceiptBody>): Promise<{ receipt: receipts.Receipt }> {
    return this.#call("POST", "/v1/relay/delivery-receipts", receipts.ReceiptAnswer, JSON.stringify(receipt));
  }

  receipts(requestId: string, recipientAgentDid: string): Promise<receipts.ReceiptList> {
    const query = new URLSearchParams({ requestId, recipientAgentDid });
    return this.#call("GET", `/v1/relay/delivery-receipts?${query}`, receipts.ReceiptList);
  }

  async #call<S extends z.ZodType>(
    method: "GET" | "POST",
    target: string,
    response: S,
    body?: string,
    recipient?: string,
    more: Record<string, string> = {},
  ): Promise<Answer<S>> {
    const request = { method, url: this.proxyUrl, target, ...(body === undefined ? {} : { body }) };
    const signed = await signedHeaders(this.deps, this.agent, recipient ? { ...request, recipient } : request);
    const headers = { ...signed, [HEADERS.access]: this.agent.accessToken, ...more };
    return await callService(this.deps, {
      method,
      url: this.proxyUrl + target,
      headers,
      response,
      ...(body === undefined ? {} : { body }),
    });
  }
}
