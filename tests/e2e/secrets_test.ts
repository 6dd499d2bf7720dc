/**
 * Secrets at rest (D-08): the test calls every route that issues a secret, on a store on disk, and searches the store's
 * files and the server's output for each secret in every form it could have there.
 */
import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { RegistryClient } from "../support/agent_client.ts";
import type { CreateApiKeyAnswer } from "../../shared/protocol/api/accounts.ts";
import type { ReissueAnswer } from "../../shared/protocol/api/agents.ts";
import type { IssuedServiceAnswer } from "../../shared/protocol/api/services.ts";
import { fromBase64Url } from "../../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import { digest } from "../../shared/server/crypto.ts";
import { systemRandom } from "../../shared/random.ts";
import {
  BOOTSTRAP_SECRET,
  Connector,
  deps,
  eventually,
  messageTo,
  newAgent,
  newId,
  placeOf,
  refusedWith,
  type ServerProcess,
  Service,
  SOON_MS,
  startServer,
  tempFolder,
} from "../support/process.ts";
import { steps } from "../support/steps.ts";

/** Calls a route with an API key; returns the answer as JSON. */
async function ask<T>(url: string, apiKey: string, method: string, path: string, body?: unknown): Promise<T> {
  const headers = { Authorization: `Bearer ${apiKey}` };
  const response = await fetch(url + path, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
  const text = await response.text();
  assert(response.ok, `${method} ${path}: ${text}`);
  return (text === "" ? null : JSON.parse(text)) as T;
}

/** Calls every route that issues a secret and returns each secret by name. */
async function play(server: ServerProcess): Promise<{ secrets: Map<string, string>; known: string[] }> {
  const secrets = new Map<string, string>([["bootstrap secret", BOOTSTRAP_SECRET]]);
  const place = placeOf(server);
  const url = server.address;
  const registry = new RegistryClient(deps, url);

  const admin = await registry.bootstrap(BOOTSTRAP_SECRET, "Ada");
  secrets.set("bootstrap: API key", admin.apiKey.token).set("bootstrap: service secret", admin.internalService.secret);
  const { invite } = await registry.createInvite(admin.apiKey.token);
  secrets.set("invite code", invite.code);
  const unused = await registry.createInvite(admin.apiKey.token);
  secrets.set("unused invite code", unused.invite.code);
  const bob = await registry.redeemInvite(invite.code, "Bob");
  secrets.set("redeem: API key", bob.apiKey.token);
  const key = await ask<CreateApiKeyAnswer>(url, bob.apiKey.token, "POST", "/v1/me/api-keys", { name: "more" });
  secrets.set("second API key", key.apiKey.token);
  const services = "/v1/admin/internal-services";
  const created = await ask<IssuedServiceAnswer>(url, admin.apiKey.token, "POST", services, {
    name: "another",
    scopes: ["crl.read"],
  });
  secrets.set("service secret", created.internalService.secret);
  const rotate = `${services}/${created.internalService.id}/rotate`;
  const rotated = await ask<IssuedServiceAnswer>(url, admin.apiKey.token, "POST", rotate);
  secrets.set("rotated service secret", rotated.internalService.secret);

  const a = await newAgent(place, admin.apiKey.token, "a");
  const b = await newAgent(place, bob.apiKey.token, "b");
  secrets.set("access token", a.agentAuth.accessToken).set("refresh token", a.agentAuth.refreshToken);
  const fresh = await registry.refresh(a.identity, a.agentAuth.refreshToken);
  secrets.set("refreshed access token", fresh.accessToken).set("refreshed refresh token", fresh.refreshToken);
  await refusedWith("AGENT_AUTH_REFRESH_INVALID", registry.refresh(a.identity, a.agentAuth.refreshToken));
  a.client.agent.accessToken = fresh.accessToken;

  const { ticket } = await a.client.pairStart({ agentName: "a", humanName: "Ada" });
  secrets.set("ticket", ticket);
  secrets.set("open ticket", (await a.client.pairStart({ agentName: "a", humanName: "Ada" })).ticket);
  await b.client.pairConfirm(ticket, { agentName: "b", humanName: "Bob" });
  const connector = await Connector.open(place, b);
  await a.client.sendMessage(messageTo(b));
  await connector.close();

  const path = `/v1/agents/${b.agent.id}`;
  await ask(url, bob.apiKey.token, "DELETE", `${path}/auth/revoke`);
  const reissued = await ask<ReissueAnswer>(url, bob.apiKey.token, "POST", `${path}/reissue`);
  assert(reissued.agentAuth, "an agent without an active session gets a new one");
  secrets.set("reissued access token", reissued.agentAuth.accessToken);
  secrets.set("reissued refresh token", reissued.agentAuth.refreshToken);
  return { secrets, known: [a.agent.id, b.agent.did, digest(bob.apiKey.token)] };
}

/** The forms in which a secret could be in a file: each half of its random part as text, as UTF-16, as raw bytes. */
function needles(secret: string): Buffer[] {
  const random = secret.replace(/^svc(?:_[a-z]{3}|pair1)_/, "");
  const halves = (bytes: Buffer) => [bytes.subarray(0, bytes.length >> 1), bytes.subarray(bytes.length >> 1)];
  const raw = fromBase64Url(random);
  return [
    ...halves(Buffer.from(random)),
    ...halves(Buffer.from(random, "utf16le")),
    ...(raw && raw.length >= 16 ? halves(Buffer.from(raw)) : []),
  ];
}

async function files(folder: string): Promise<Map<string, Buffer>> {
  const found = new Map<string, Buffer>();
  for await (const { name } of Deno.readDir(folder)) {
    found.set(name, Buffer.from(await Deno.readFile(`${folder}/${name}`)));
  }
  return found;
}

/** Names of the files and streams that contain a secret. */
function found(places: ReadonlyMap<string, Buffer>, secret: string): string[] {
  const wanted = needles(secret);
  return [...places].filter(([, bytes]) => wanted.some((needle) => bytes.includes(needle))).map(([name]) => name);
}

Deno.test("no issued secret is in the store's files or in the server's output", async (t) => {
  await using folder = await tempFolder();
  await using server = await startServer({ folder: folder.path });
  const { secrets, known } = await play(server);

  const whileRunning = await files(folder.path);
  assertEquals([...whileRunning.keys()].filter((name) => /^svc\.kv(-wal|-shm)?$/.test(name)).length, 3);
  await server.end();
  const places = new Map([
    ...[...whileRunning].map(([name, bytes]) => [`${name} while running`, bytes] as const),
    ...await files(folder.path),
    ["stdout", Buffer.from(server.stdout.text)],
    ["stderr", Buffer.from(server.stderr.text)],
  ]);
  await t.step("the search finds values that are there: IDs, and digests of secrets", () => {
    for (const text of known) {
      assert([...places.values()].some((bytes) => bytes.includes(text)), `${text} was not found`);
    }
    assert(places.get("stderr")?.includes("AGENT_AUTH_REFRESH_INVALID"), "refusals were logged");
  });
  for (const [name, secret] of secrets) {
    await t.step(name, () => assertEquals(found(places, secret), []));
  }
});

Deno.test("a configured signing key is neither stored, printed nor published", async () => {
  const { publicKey: x, seed: d } = await keyPairFromSeed(systemRandom.bytes(32));
  const REGISTRY_SIGNING_KEYS = JSON.stringify({ keys: [{ kid: "configured", kty: "OKP", crv: "Ed25519", x, d }] });
  await using service = await Service.open({ REGISTRY_SIGNING_KEYS });
  const { server, url } = service;
  await service.agent();
  const published = ["/.well-known/svc-keys.json", "/health", "/v1/metadata"].map((path) =>
    fetch(url + path).then((response) => response.text())
  );
  const answers = (await Promise.all(published)).join("\n");
  assert(answers.includes(x), "the public half is published");
  await server.end();
  const places = new Map([
    ...await files(service.optionsOf(0).folder),
    ["answers", Buffer.from(answers)],
    ["stdout", Buffer.from(server.stdout.text)],
    ["stderr", Buffer.from(server.stderr.text)],
  ]);
  assertEquals(found(places, d), []);
});

Deno.test("a secret in the wrong place of a request is neither logged nor reflected", async (t) => {
  await using service = await Service.open();
  const { url, apiKey: pat } = service;
  const { invite: { code } } = await new RegistryClient(deps, url).createInvite(pat);
  const { agentAuth } = await service.agent();
  const bearer = { Authorization: `Bearer ${pat}` };
  const attempts: [name: string, method: string, path: string, headers: Record<string, string>, body: string | null][] =
    [
      ["API key in a query", "GET", `/v1/agents?cursor=${pat}`, bearer, null],
      ["API key for its id in the path", "DELETE", `/v1/me/api-keys/${pat}`, bearer, null],
      ["invite code for its id in the path", "DELETE", `/v1/invites/${code}`, bearer, null],
      ["API key as a path", "GET", `/${pat}`, {}, null],
      ["invite code in a body that is refused", "POST", "/v1/invites/redeem", {}, `{"code":"${code}","displayName":7}`],
      ["invite code with a blank", "POST", "/v1/invites/redeem", {}, `{"code":"${code} "}`],
      ["API key under another scheme", "GET", "/v1/me", { Authorization: `Basic ${pat}` }, null],
      ["access token for an AIT", "POST", "/hooks/agent", { Authorization: `Svc ${agentAuth.accessToken}` }, "{}"],
      ["refresh token for an access token", "POST", "/v1/agents/auth/validate", {
        "X-Svc-Agent-Access": agentAuth.refreshToken,
      }, `{"agentDid":"${pat}","aitJti":"${code}"}`],
    ];
  await steps(t, attempts, async ([, method, path, headers, body]) => {
    const requestId = `request-${newId()}`;
    const response = await fetch(url + path, { method, headers: { ...headers, "x-request-id": requestId }, body });
    const answer = await response.text();
    assert(response.status >= 400, answer);
    const { stderr } = service.server;
    const line = await eventually(SOON_MS, "the line", () => stderr.lines.find((text) => text.includes(requestId)));
    for (const secret of [pat, code, agentAuth.accessToken, agentAuth.refreshToken]) {
      assert(!answer.includes(secret.slice(8, 40)), `reflected: ${answer}`);
      assert(!line.includes(secret.slice(8, 40)), `logged: ${line}`);
    }
  });
});
