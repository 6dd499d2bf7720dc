/**
 * The OpenAPI document of a running server describes its answers: recorded answers are valid against it, and an
 * invented one is not. Real process.
 */
import { assert, assertEquals } from "@std/assert";
import type { Challenge } from "../../shared/protocol/api/agents.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { keyPairFromSeed, sign } from "../../shared/protocol/ed25519.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { registrationMessage } from "../../shared/protocol/registration.ts";
import { signedHeaders } from "../../cli/link/signed_headers.ts";
import { type ApiDocument, problemOf, type Recorded, requestProblemOf } from "../support/openapi_answer.ts";
import { deps, type LiveAgent, newId, Service } from "../support/process.ts";

/** Sends requests of every kind to a service and keeps the answers. */
class Recorder {
  readonly answers: Recorded[] = [];

  constructor(readonly service: Service, readonly document: ApiDocument) {}

  /** Whether an operation names a request header. */
  names(method: string, path: string, header: string): boolean {
    const parameters: { name: string }[] = this.document.paths[path]?.[method.toLowerCase()]?.parameters ?? [];
    return parameters.some(({ name }) => name === header);
  }

  async send(method: string, path: string, init: RequestInit = {}, target = path): Promise<Record<string, never>> {
    const response = await fetch(this.service.url + target, { method, ...init });
    const text = await response.text();
    const asked = {
      query: new URL(this.service.url + target).searchParams,
      headers: new Headers(init.headers),
      body: init.body === undefined || init.body === null ? null : String(init.body),
    };
    this.answers.push({ method, path, status: response.status, headers: response.headers, text, asked });
    return text.startsWith("{") ? JSON.parse(text) : {};
  }

  /** With an API key; `null` sends none. */
  async human(method: string, path: string, body?: unknown, key: string | null = this.service.apiKey, target = path) {
    const headers = key === null ? {} : { Authorization: `Bearer ${key}` };
    return await this.send(
      method,
      path,
      { headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) },
      target,
    );
  }

  /** Signed by an agent; `more` are additional headers. */
  async agent(
    agent: LiveAgent,
    method: string,
    path: string,
    { body, query = "", recipient, more = {} }: {
      body?: unknown;
      query?: string;
      recipient?: string;
      more?: Record<string, string>;
    } = {},
  ) {
    const text = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
    const signed = await signedHeaders(deps, agent.identity, {
      method,
      url: this.service.url,
      target: path + query,
      ...(text === undefined ? {} : { body: text }),
      ...(recipient === undefined ? {} : { recipient }),
    });
    const headers = {
      ...signed,
      ...(this.names(method, path, HEADERS.access) ? { [HEADERS.access]: agent.identity.accessToken } : {}),
      ...(text === undefined ? {} : { "Content-Type": "application/json" }),
      ...more,
    };
    return await this.send(method, path, { headers, ...(text === undefined ? {} : { body: text }) }, path + query);
  }
}

/** Rows whose request no `fetch` can send, or that a server answers once, which it does as it is opened for the test. */
const ELSEWHERE: readonly string[] = ["POST /v1/admin/bootstrap", "GET /v1/relay/connect"];

async function recordPublic(r: Recorder): Promise<void> {
  for (
    const path of [
      "/health",
      "/healthz",
      "/readyz",
      "/v1/metadata",
      "/openapi.json",
    ]
  ) {
    await r.send("GET", path);
  }
  await r.send("GET", "/v1/crl");
  await r.send("GET", "/.well-known/svc-keys.json");
  for (const path of ["/v1/crl", "/.well-known/svc-keys.json"]) {
    const ETag = r.answers.findLast((one) => one.path === path)?.headers.get("etag") ?? "";
    await r.send("GET", path, { headers: { "If-None-Match": ETag } });
  }
  await r.send("GET", "/v1/resolve/{id}", {}, `/v1/resolve/${newId()}`);
  await r.send("GET", "/v1/resolve/{id}", {}, "/v1/resolve/x");
  await r.human("POST", "/v1/invites/redeem", { code: "svc_inv_none" }, null);
  await r.human("POST", "/v1/invites/redeem", {}, null);
  await r.human("POST", "/v1/admin/bootstrap", {}, null);
}

async function recordHuman(r: Recorder, { a }: { a: LiveAgent }): Promise<void> {
  const id = a.agent.id;
  for (
    const path of [
      "/v1/me",
      "/v1/me/api-keys",
      "/v1/agents",
      "/v1/invites",
      "/v1/admin/internal-services",
      "/v1/admin/audit",
    ]
  ) {
    await r.human("GET", path);
    await r.human("GET", path, undefined, null);
  }
  await r.human("GET", "/v1/agents", undefined, r.service.apiKey, "/v1/agents?limit=0");
  await r.human("GET", "/v1/agents", undefined, r.service.apiKey, "/v1/agents?limit=1&status=active");
  await r.human("GET", "/v1/agents/{id}", undefined, r.service.apiKey, `/v1/agents/${id}`);
  await r.human("GET", "/v1/agents/{id}", undefined, r.service.apiKey, `/v1/agents/${newId()}`);
  await r.send("GET", "/v1/resolve/{id}", {}, `/v1/resolve/${id}`);
  const { apiKey } = await r.human("POST", "/v1/me/api-keys", { name: "x" }) as unknown as { apiKey: { id: string } };
  await r.human("DELETE", "/v1/me/api-keys/{id}", undefined, r.service.apiKey, `/v1/me/api-keys/${apiKey.id}`);
  await r.human("POST", "/v1/me/api-keys", { name: 7 });
  const { invite } = await r.human("POST", "/v1/invites") as unknown as { invite: { id: string; code: string } };
  await r.human("POST", "/v1/invites/redeem", { code: invite.code }, null);
  const remove = (id: string) =>
    r.human("DELETE", "/v1/invites/{id}", undefined, r.service.apiKey, `/v1/invites/${id}`);
  await remove(invite.id);
  const { invite: unused } = await r.human("POST", "/v1/invites") as unknown as { invite: { id: string } };
  await remove(unused.id);
  const keys = await keyPairFromSeed(deps.random.bytes(32));
  const { publicKey } = keys;
  const challenge = await r.human("POST", "/v1/agents/challenge", { publicKey }) as unknown as Challenge;
  const { challengeId, nonce, ownerDid } = challenge;
  const wanted = { name: "third", publicKey, challengeId };
  const challengeSignature = await sign(
    keys.privateKey,
    utf8Bytes(registrationMessage({ ...wanted, nonce, ownerDid })),
  );
  await r.human("POST", "/v1/agents", { ...wanted, challengeSignature });
  await r.human("POST", "/v1/agents/challenge", {});
  await r.human("POST", "/v1/agents", {});
  const { internalService } = await r.human("POST", "/v1/admin/internal-services", {
    name: "reader",
    scopes: ["identity.read", "auth.validate"],
  }) as unknown as { internalService: { id: string; secret: string } };
  const credential = { [HEADERS.serviceId]: internalService.id, [HEADERS.serviceSecret]: internalService.secret };
  await r.send("POST", "/internal/v1/identity/agent-ownership", {
    headers: credential,
    body: JSON.stringify({ ownerDid, agentDid: a.agent.did }),
  });
  await r.send("POST", "/v1/agents/auth/validate", {
    headers: { ...credential, [HEADERS.access]: a.identity.accessToken },
    body: JSON.stringify({ agentDid: a.agent.did, aitJti: a.agent.currentJti }),
  });
  const service = `/v1/admin/internal-services/${internalService.id}`;
  await r.human("POST", "/v1/admin/internal-services/{id}/rotate", undefined, r.service.apiKey, `${service}/rotate`);
  await r.human("DELETE", "/v1/admin/internal-services/{id}", undefined, r.service.apiKey, service);
  await r.human("POST", "/internal/v1/identity/agent-ownership", {}, null);
  await r.human("POST", "/v1/agents/auth/validate", {}, null);
}

async function recordAgents(r: Recorder, { a, b }: { a: LiveAgent; b: LiveAgent }): Promise<void> {
  const recipient = b.identity.did, body = { message: "hi" };
  const message = { body, recipient };
  const requestId = newId();
  await r.agent(a, "POST", "/hooks/agent", message);
  await r.agent(a, "POST", "/hooks/agent", {
    ...message,
    more: { Prefer: "respond-async", "x-request-id": requestId },
  });
  await r.agent(a, "POST", "/hooks/agent", { ...message, more: { "Content-Type": "text/plain" } });
  await r.agent(a, "POST", "/hooks/agent", { ...message, body: "{" });
  await r.agent(a, "POST", "/hooks/agent", { body });
  await r.agent(b, "POST", "/hooks/agent", { body, recipient: b.identity.did });
  await r.agent(a, "POST", "/hooks/agent", { ...message, more: { [HEADERS.conversationId]: "a b" } });
  await r.agent(a, "POST", "/hooks/agent", { ...message, more: { [HEADERS.auto]: "2" } });
  await r.agent(a, "POST", "/hooks/agent", { ...message, query: "?ctx=x" });
  await r.send("POST", "/hooks/agent", { body: "{}" });
  const connector = await r.service.connect(b);
  await r.agent(a, "POST", "/hooks/agent", message);
  await connector.close();
  const receipt = {
    requestId,
    recipientAgentDid: recipient,
    status: "processed_by_svc",
    timestamp: new Date().toISOString(),
  };
  await r.agent(b, "POST", "/v1/relay/delivery-receipts", { body: receipt });
  await r.agent(b, "POST", "/v1/relay/delivery-receipts", { body: {} });
  await r.agent(a, "GET", "/v1/relay/delivery-receipts", {
    query: `?requestId=${requestId}&recipientAgentDid=${recipient}`,
  });
  await r.agent(a, "GET", "/v1/relay/delivery-receipts");
  await r.agent(a, "POST", "/v1/relay/deliveries", {
    body: { messages: [{ requestId, recipientAgentDid: recipient }] },
  });
  await r.agent(a, "POST", "/v1/relay/deliveries", { body: {} });
  await r.agent(a, "GET", "/v1/relay/connect");
  const initiatorProfile = { agentName: "a", humanName: "A" };
  const { ticket } = await r.agent(a, "POST", "/pair/start", { body: { initiatorProfile } });
  await r.agent(a, "POST", "/pair/start", { body: {} });
  await r.agent(a, "POST", "/pair/status", { body: { ticket } });
  await r.agent(b, "POST", "/pair/confirm", { body: { ticket, responderProfile: initiatorProfile } });
  await r.agent(a, "POST", "/pair/status", { body: { ticket } });
  await r.agent(a, "POST", "/pair/confirm", { body: { ticket: "svcpair1_x", responderProfile: initiatorProfile } });
  await r.agent(a, "GET", "/pair/peers");
  await r.agent(a, "POST", "/pair/accept", { body: {} });
  const peerKey = { publicKey: "A".repeat(43), mac: "A".repeat(43) }, peerProxy = "https://b.example";
  const peerAgentDid = "did:svc:b.example:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
  await r.agent(a, "POST", "/pair/accept", {
    body: { peerAgentDid, peerProxy, peerKey, peerProfile: initiatorProfile },
  });
  await r.agent(a, "POST", "/v1/agents/auth/visit", { body: { audience: peerProxy } });
  await r.agent(a, "POST", "/v1/agents/auth/visit", { body: {} });
  await r.agent(a, "POST", "/pair/remove", { body: { peerAgentDid: recipient } });
  await r.agent(a, "POST", "/v1/agents/auth/refresh", { body: { refreshToken: a.agentAuth.refreshToken } });
  const id = a.agent.id, key = r.service.apiKey;
  await r.human("POST", "/v1/agents/{id}/reissue", undefined, key, `/v1/agents/${id}/reissue`);
  await r.human("DELETE", "/v1/agents/{id}/auth/revoke", undefined, key, `/v1/agents/${id}/auth/revoke`);
  await r.human("DELETE", "/v1/agents/{id}", undefined, key, `/v1/agents/${id}`);
  await r.human("POST", "/v1/admin/keys/rotate");
}

async function recordAdmin(r: Recorder, { b }: { b: LiveAgent }): Promise<void> {
  const key = r.service.apiKey;
  const { invite } = await r.human("POST", "/v1/invites") as unknown as { invite: { code: string } };
  const { human } = await r.human("POST", "/v1/invites/redeem", { code: invite.code }, null) as unknown as {
    human: { id: string };
  };
  const person = `/v1/admin/people/${human.id}`;
  await r.human("GET", "/v1/admin/people");
  await r.human("GET", "/v1/admin/people", undefined, key, "/v1/admin/people?role=x");
  await r.human("GET", "/v1/admin/people/{id}", undefined, key, person);
  await r.human("GET", "/v1/admin/people/{id}", undefined, key, `/v1/admin/people/${newId()}`);
  for (const change of ["suspend", "restore"]) {
    await r.human("POST", `/v1/admin/people/{id}/${change}`, {}, key, `${person}/${change}`);
    await r.human("POST", `/v1/admin/people/{id}/${change}`, { note: 7 }, key, `${person}/${change}`);
  }
  const { id } = b.agent;
  await r.human("GET", "/v1/admin/agents");
  await r.human("GET", "/v1/admin/agents", undefined, key, "/v1/admin/agents?status=x");
  await r.human("GET", "/v1/admin/agents/{id}", undefined, key, `/v1/admin/agents/${id}`);
  await r.human("DELETE", "/v1/admin/agents/{id}/auth/revoke", undefined, key, `/v1/admin/agents/${id}/auth/revoke`);
  await r.human("DELETE", "/v1/admin/agents/{id}", undefined, key, `/v1/admin/agents/${id}`);
  await r.human("DELETE", "/v1/admin/agents/{id}", undefined, key, `/v1/admin/agents/${newId()}`);
  await r.send("GET", "/v1/crl");
  await r.human("GET", "/v1/admin/counts");
  await r.human("POST", "/v1/admin/console-codes");
  const { token } = await r.human("POST", "/v1/admin/tokens") as unknown as { token: string };
  await r.human("GET", "/v1/admin/relay/overview", undefined, token);
  for (const list of ["connections", "issuers", "queues", "deliveries", "refusals", "series"]) {
    const path = `/v1/admin/relay/${list}`;
    await r.human("GET", path, undefined, token, list === "deliveries" ? `${path}?requestId=${newId()}` : path);
    await r.human("GET", path, undefined, token, `${path}?limit=x`);
    await r.human("GET", path, undefined, key);
  }
}

Deno.test("recorded answers of a running server are valid against its OpenAPI document", async () => {
  await using service = await Service.here({ CONSOLE: "on" });
  const document: ApiDocument = await (await fetch(`${service.url}/openapi.json`)).json();
  const recorder = new Recorder(service, document);
  const agents = await service.agents();
  await recordPublic(recorder);
  await recordHuman(recorder, agents);
  await recordAgents(recorder, agents);
  await recordAdmin(recorder, agents);
  const { answers } = recorder;
  const wrong = answers.flatMap((answer) => {
    const problem = problemOf(document, answer);
    return problem ? [`${answer.method} ${answer.path} ${answer.status} ${answer.text.slice(0, 200)}: ${problem}`] : [];
  });
  assertEquals(wrong, []);
  assert(answers.length >= 60, `${answers.length} answers`);
  assertEquals(answers.filter(({ status }) => status >= 500 && status !== 502), []);
  const operations = Object.entries<Record<string, unknown>>(document.paths)
    .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
  const recorded = new Set(answers.map(({ method, path }) => `${method} ${path}`));
  assertEquals(operations.filter((operation) => !recorded.has(operation)), []);
  const taken = answers.filter(({ status }) => status < 300);
  const unnamed = taken.flatMap((answer) => {
    const problem = requestProblemOf(document, answer);
    return problem === null ? [] : [`${answer.method} ${answer.path}: ${problem}`];
  });
  assertEquals(unnamed, [], "a request was taken that the document does not describe");
  const accepted = new Set(taken.map(({ method, path }) => `${method} ${path}`));
  assertEquals(operations.filter((operation) => !accepted.has(operation)), ELSEWHERE);
  const [health] = answers;
  assert(health);
  for (const service of ["registry", "proxy"]) assert(health.text.includes(`"${service}"`));
  const foreign = [
    { ...health, text: health.text.replace('"proxy"', '"other"') },
    { ...health, status: 418 },
    { ...health, status: 503, text: '{"error":{"code":"NOT_FOUND","message":"x"}}' },
  ];
  for (const answer of foreign) assert(problemOf(document, answer), answer.text);
});
