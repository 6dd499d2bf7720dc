/**
 * SIGKILL at a random moment under mixed load: every answer still holds after a restart on the same store, no
 * single-use value works twice, and no change is partial. More with `-- --trials n`.
 */
import { assert, assertEquals } from "@std/assert";
import {
  AgentClient,
  ApiError,
  type HttpDeps,
  RegistryClient,
  signedHeaders,
  UnreachableError,
} from "../support/agent_client.ts";
import type { TicketRecord } from "../../proxy/schema/records.ts";
import type {
  AgentRecord,
  ChallengeRecord,
  HumanRecord,
  InviteRecord,
  SessionRecord,
} from "../../registry/schema/records.ts";
import type { CreateApiKeyAnswer } from "../../shared/protocol/api/accounts.ts";
import type { PeerList } from "../../shared/protocol/api/pairing.ts";
import { fromBase64Url } from "../../shared/protocol/base64url.ts";
import type { CrlClaims } from "../../shared/protocol/signed/crl.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import {
  Connector,
  deps,
  eventually,
  type LiveAgent,
  messageTo,
  newAgent,
  pair,
  type Place,
  Service,
  SOON_MS,
} from "../support/process.ts";
import { longTest, trials } from "../support/trials.ts";

/** Kills of each deployment. */
const TRIALS = trials(1);
const REFRESH = "/v1/agents/auth/refresh";
/** Requests that must not succeed twice, and the answer to the second. */
const AGAIN: Record<string, string> = {
  [REFRESH]: "AGENT_AUTH_REFRESH_UNAUTHORIZED",
  "/v1/agents": "AGENT_REGISTRATION_CHALLENGE_REPLAYED",
  "/v1/invites/redeem": "INVITE_REDEEM_ALREADY_USED",
  "/pair/start": "PROXY_AUTH_REPLAY",
  "/pair/confirm": "PROXY_AUTH_REPLAY",
  "/hooks/agent": "PROXY_AUTH_REPLAY",
};
const bearer = (apiKey: string) => ({ Authorization: `Bearer ${apiKey}` });
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** A single-use request, and whether it got a success answer. */
interface Sent {
  url: URL;
  init: RequestInit;
  succeeded: boolean;
}

/** A `fetch` from a new address each time, so that no limit per address applies. */
const fromAnywhere = ((input, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("X-Forwarded-For", `10.${[1, 2, 3].map(() => Math.floor(Math.random() * 256)).join(".")}`);
  return fetch(input, { ...init, headers });
}) as typeof fetch;

/** Agents of all trials: some refresh, some pair, some send messages. */
interface Cast {
  apiKey: string;
  refresher: { agent: LiveAgent; refreshToken: string; accessToken: string };
  pairing: LiveAgent[];
  sender: LiveAgent;
  recipient: LiveAgent;
  /** Never connected under load: its messages wait in the mailbox. */
  away: LiveAgent;
}

/** The load of one trial, and the facts that must hold after it. */
class Load {
  readonly facts: [what: string, check: () => Promise<void>][] = [];
  readonly sent: Sent[] = [];
  readonly queued: string[] = [];
  readonly #client: HttpDeps = { ...deps, fetch: this.#twice.bind(this) as typeof fetch };
  readonly #registry: RegistryClient;
  /** For inspection afterwards: each call once. */
  readonly #once: RegistryClient;
  #stopped = false;

  constructor(readonly place: Place, readonly cast: Cast) {
    this.#registry = new RegistryClient(this.#client, place.registryUrl);
    this.#once = new RegistryClient({ ...deps, fetch: fromAnywhere }, place.registryUrl);
  }

  /** Runs the load until `kill` has killed. */
  async run(kill: () => Promise<void>): Promise<void> {
    const { recipient, pairing } = this.cast;
    const connector = await Connector.open(this.place, recipient);
    const works = [
      () => this.#redeem(),
      () => this.#agentLifecycle(),
      () => this.#refreshes(),
      () => this.#pairs(pairing.shift(), pairing.shift()),
      () => this.#messages(connector),
      () => this.#queues(),
    ];
    const loops = works.map((work) => this.#loop(work));
    await Promise.race([pause(5 + Math.random() * 300), Promise.all(loops)]);
    this.#stopped = true;
    await kill();
    await Promise.all(loops);
    await connector.close();
  }

  async #loop(work: () => Promise<void>): Promise<void> {
    while (!this.#stopped) {
      try {
        await work();
      } catch (error) {
        // On a busy machine an acknowledgement may come after its time, and the server may have too much to do.
        const isBusy = error instanceof ApiError &&
          (error.status === 503 || error.code === "PROXY_RELAY_DELIVERY_FAILED");
        if (!isBusy && !(this.#stopped && error instanceof UnreachableError)) throw error;
      }
    }
  }

  /** Sends a single-use request twice at once: at most one may succeed. */
  async #twice(input: string, init: RequestInit): Promise<Response> {
    const url = new URL(input);
    if (init.method !== "POST" || !(url.pathname in AGAIN)) return await fromAnywhere(input, init);
    const sent: Sent = { url, init, succeeded: false };
    this.sent.push(sent);
    const both = await Promise.allSettled([fromAnywhere(input, init), fromAnywhere(input, init)]);
    const answers = both.flatMap((one) => one.status === "fulfilled" ? [one.value] : []);
    const won = answers.filter(({ ok }) => ok);
    assert(won.length <= 1, `${url.pathname} succeeded twice`);
    sent.succeeded = won.length === 1;
    const busy = answers.find(({ status }) => status === 503);
    const [answer = busy ?? (both.length > answers.length ? undefined : answers[0])] = won;
    for (const other of answers) if (other !== answer) await other.body?.cancel().catch(() => {});
    if (!answer) throw new TypeError("The answer was interrupted");
    return answer;
  }

  async #redeem(): Promise<void> {
    const { invite } = await this.#registry.createInvite(this.cast.apiKey);
    const { human, apiKey } = await this.#registry.redeemInvite(invite.code);
    this.facts.push([`the API key of ${human.did} works`, async () => {
      assertEquals((await this.#once.me(apiKey.token)).human.id, human.id);
    }]);
  }

  /** Registers an agent, then keeps it, deletes it, or ends its session. */
  async #agentLifecycle(): Promise<void> {
    const { apiKey } = this.cast;
    const created = await newAgent(this.place, apiKey, "mortal", this.#client);
    const { agent, agentAuth, identity } = created;
    const fact = [`${agent.did} is registered`, () => this.#assertState(created, "active", 204)] as [
      string,
      () => Promise<void>,
    ];
    this.facts.push(fact);
    const choice = Math.random();
    if (choice < 0.3) return;
    // Between request and answer either state is allowed.
    fact[1] = () => Promise.resolve();
    if (choice < 0.7) {
      await this.#registry.deleteAgent(apiKey, agent.id);
      fact[0] = `${agent.did} is deleted and on the revocation list`;
      fact[1] = async () => {
        await this.#assertState(created, "revoked", 401);
        assert((await this.#revoked()).has(agent.currentJti), "its AIT is not on the CRL");
      };
    } else {
      const path = `${this.place.registryUrl}/v1/agents/${agent.id}/auth/revoke`;
      const response = await this.#client.fetch(path, { method: "DELETE", headers: bearer(apiKey) })
        .catch((cause) => Promise.reject(new UnreachableError("interrupted", { cause })));
      assertEquals(response.status, 204);
      fact[0] = `the session of ${agent.did} is ended`;
      fact[1] = async () => {
        await this.#assertState(created, "active", 401);
        const error = await this.#once.refresh(identity, agentAuth.refreshToken).catch((refused) => refused);
        assertEquals((error as ApiError).code, "AGENT_AUTH_REFRESH_REVOKED");
      };
    }
  }

  async #refreshes(): Promise<void> {
    const { refresher } = this.cast;
    Object.assign(refresher, await this.#registry.refresh(refresher.agent.identity, refresher.refreshToken));
    await pause(10);
  }

  async #pairs(a?: LiveAgent, b?: LiveAgent): Promise<void> {
    if (!a || !b) return await pause(20);
    const { ticket } = await this.#as(a).pairStart({ agentName: "a", humanName: "A" });
    await this.#as(b).pairConfirm(ticket, { agentName: "b", humanName: "B" });
    this.facts.push([`${a.identity.did} and ${b.identity.did} are a pair, both ways`, async () => {
      assert((await this.#peers(a)).has(b.identity.did), "the first has no pair with the second");
      assert((await this.#peers(b)).has(a.identity.did), "the second has no pair with the first");
    }]);
  }

  async #messages(connector: Connector): Promise<void> {
    const { sender, recipient } = this.cast;
    const { delivered, requestId } = await this.#as(sender).sendMessage(messageTo(recipient));
    assert(delivered && connector.frames.some((frame) => frame.requestId === requestId), "202 without an ack");
  }

  /** A message for an offline agent: a 202 promises its delivery. */
  async #queues(): Promise<void> {
    const { sender, away } = this.cast;
    if (this.queued.length >= 40) return await pause(20);
    const message = { ...messageTo(away), prefer: "respond-async" as const };
    this.queued.push((await this.#as(sender).sendMessage(message)).requestId);
  }

  #as({ identity }: LiveAgent): AgentClient {
    return new AgentClient(this.#client, this.place.proxyUrl, identity);
  }

  /** Checks every fact, sends everything again, and completes what was interrupted. */
  async verify(): Promise<void> {
    for (const [what, check] of this.facts) {
      await check().catch((cause) => Promise.reject(new Error(`No longer true: ${what}`, { cause })));
    }
    const connector = await Connector.open(this.place, this.cast.recipient);
    for (const { url, init, succeeded } of this.sent) {
      if (url.pathname === REFRESH && !succeeded) continue;
      // An interrupted request may have taken effect or not; sent again it takes effect at the latest now.
      if (!succeeded) await codeOf(await fromAnywhere(url, init));
      assertEquals(await codeOf(await fromAnywhere(url, init)), AGAIN[url.pathname], `${url.pathname} again`);
    }
    await connector.close();
    await this.#recover();
    await this.#takeQueued();
  }

  /** The owner alone completes an interrupted refresh (D-44). */
  async #recover(): Promise<void> {
    const { refresher } = this.cast;
    const { agent: { identity }, refreshToken } = refresher;
    let recovery = false;
    Object.assign(
      refresher,
      await eventually(SOON_MS, "the session can be used again", async () => {
        try {
          return await this.#once.refresh(identity, refreshToken, recovery);
        } catch (error) {
          const { code } = error as ApiError;
          assert(["AGENT_AUTH_REFRESH_INVALID", "AGENT_AUTH_REFRESH_CONFLICT"].includes(code ?? ""), `${error}`);
          recovery = true;
        }
      }),
    );
  }

  async #takeQueued(): Promise<void> {
    const connector = await Connector.open(this.place, this.cast.away);
    const arrived = () => new Set(connector.frames.map(({ requestId }) => requestId));
    const all = () => this.queued.every((requestId) => arrived().has(requestId)) || undefined;
    await eventually(SOON_MS, `${this.queued.length} queued messages arrive`, all);
    assertEquals([...arrived()].filter((requestId) => this.queued.includes(requestId)), this.queued, "in order (D-68)");
    await connector.close();
    await eventually(SOON_MS, "the proxy sees it gone", async () => {
      const health = await (await fetch(`${this.place.proxyUrl}/health`)).json();
      return (health.proxy ?? health).connectedSockets === 0 || undefined;
    });
  }

  async #assertState({ agent, agentAuth }: LiveAgent, status: string, validation: number): Promise<void> {
    const { registryUrl } = this.place;
    const response = await fetch(`${registryUrl}/v1/agents/${agent.id}`, { headers: bearer(this.cast.apiKey) });
    assertEquals((await response.json()).agent.status, status);
    const validated = await fromAnywhere(`${registryUrl}/v1/agents/auth/validate`, {
      method: "POST",
      headers: { [HEADERS.access]: agentAuth.accessToken },
      body: JSON.stringify({ agentDid: agent.did, aitJti: agent.currentJti }),
    });
    await validated.body?.cancel();
    assertEquals(validated.status, validation);
  }

  async #revoked(): Promise<Set<string>> {
    const { crl } = await (await fromAnywhere(`${this.place.registryUrl}/v1/crl`)).json() as { crl: string };
    const claims = new TextDecoder().decode(fromBase64Url(crl.split(".")[1] ?? "") ?? new Uint8Array());
    return new Set((JSON.parse(claims) as CrlClaims).revocations.map(({ jti }) => jti));
  }

  async #peers({ identity }: LiveAgent): Promise<Set<string>> {
    const target = "/pair/peers?limit=500";
    const url = this.place.proxyUrl;
    const headers = await signedHeaders(deps, identity, { method: "GET", url, target });
    const response = await fetch(url + target, { headers });
    const text = await response.text();
    assertEquals(response.status, 200, text);
    const { peers } = JSON.parse(text) as PeerList;
    return new Set(peers.map(({ agentDid }) => agentDid));
  }
}

/** Partial changes in a store whose process is dead. */
async function halfDone(path: string): Promise<string[]> {
  const records = new Map<string, unknown>();
  const kv = await Deno.openKv(path);
  for await (const { key, value } of kv.list({ prefix: [] })) records.set(key.join(" "), value);
  kv.close();
  const all = <T>(kind: string) => [...records].filter(([key]) => key.startsWith(`${kind} `)) as [string, T][];
  const found: string[] = [];
  const need = (holds: boolean, what: string) => void (holds || found.push(what));

  const redeemed = all<InviteRecord>("registry invite").filter(([, { redeemedBy }]) => redeemedBy !== null);
  const users = all<HumanRecord>("registry human").filter(([, { role }]) => role === "user");
  const makers = new Set(redeemed.map(([, { redeemedBy }]) => redeemedBy));
  need(
    redeemed.length === users.length && users.every(([, { did }]) => makers.has(did)),
    "an invite without its human",
  );
  for (const [, { id, did }] of users) need(all(`registry api_key_of ${id}`).length > 0, `${did} has no API key`);

  const agents = all<AgentRecord>("registry agent");
  const used = all<ChallengeRecord>("registry challenge").filter(([, { usedAt }]) => usedAt !== null);
  need(used.length === agents.length, `${used.length} used challenges, ${agents.length} agents`);
  for (const [, { id, did, ownerId, status, currentJti }] of agents) {
    const session = records.get(`registry session ${id}`) as SessionRecord | undefined;
    need(session !== undefined, `${did} has no session`);
    need(records.has(`registry agent_of ${ownerId} ${id}`), `${did} is in no list of agents`);
    need((status === "revoked") === records.has(`registry revocation ${currentJti}`), `${did} is half revoked`);
    need(status !== "revoked" || session?.status === "revoked", `${did} is revoked, its session is not`);
  }
  const head = records.get("registry crl_head") as { seq: number } | undefined;
  need((head?.seq ?? 0) === all("registry revocation").length, "the revocation list has another number of entries");

  for (const [key] of all("proxy pair")) {
    const [, , a, b] = key.split(" ");
    need(records.has(`proxy pair ${b} ${a}`), `${a} and ${b} are half a pair`);
  }
  for (const [, { id, initiatorAgentDid, confirmed }] of all<TicketRecord>("proxy ticket")) {
    const pairKey = `proxy pair ${initiatorAgentDid} ${confirmed?.responderAgentDid}`;
    need(confirmed === null || records.has(pairKey), `ticket ${id} is confirmed without a pair`);
  }
  return found;
}

async function codeOf(response: Response): Promise<string | undefined> {
  const text = await response.text();
  return response.ok ? "success" : (JSON.parse(text) as { error: { code: string } }).error.code;
}

/** The number of agents for a number of trials. */
async function castOf(place: Place, apiKey: string): Promise<Omit<Cast, "refresher">> {
  const client: HttpDeps = { ...deps, fetch: fromAnywhere };
  const agents: LiveAgent[] = [];
  for (let i = 0; i < 3 + Math.min(TRIALS * 4, 200); i++) agents.push(await newAgent(place, apiKey, `a-${i}`, client));
  const [sender, recipient, away, ...pairing] = agents as [LiveAgent, LiveAgent, LiveAgent];
  await pair(sender, recipient);
  await pair(sender, away);
  return { apiKey, pairing, sender, recipient, away };
}

/** A new agent for each trial, because an agent may refresh only 35 times an hour. */
async function refresherOf(place: Place, apiKey: string, name: string): Promise<Cast["refresher"]> {
  const agent = await newAgent(place, apiKey, name, { ...deps, fetch: fromAnywhere });
  return { agent, ...agent.agentAuth };
}

for (const isApart of [false, true]) {
  const who = isApart ? "registry or proxy" : "the server";
  const test = isApart ? longTest : Deno.test;
  test(`answered requests hold and no change is partial when ${who} is killed under load`, async () => {
    await using service = await Service.open({ TRUSTED_PROXIES: "127.0.0.1", RELAY_ACK_TIMEOUT_MS: "2000" }, isApart);
    const { place, servers, apiKey } = service;
    const cast = await castOf(place, apiKey);
    let [requests, facts] = [0, 0];
    for (let trial = 1; trial <= TRIALS; trial++) {
      const refresher = await refresherOf(place, apiKey, `refresher-${trial}`);
      const load = new Load(place, { ...cast, refresher, apiKey: await furtherKey(place, apiKey) });
      const victim = Math.floor(Math.random() * servers.length);
      await load.run(async () => void await servers[victim]?.end("SIGKILL"));
      assertEquals(await halfDone(`${service.optionsOf(victim).folder}/svc.kv`), [], `trial ${trial}`);
      await service.restart(victim);
      await load.verify();
      requests += load.sent.length;
      facts += load.facts.length + load.queued.length;
    }
    console.log(`crash: ${TRIALS} trials, ${requests} single-use requests, ${facts} answers checked again`);
  });
}

/** An API key for each trial: a key makes 600 requests a minute. */
async function furtherKey({ registryUrl }: Place, apiKey: string): Promise<string> {
  const response = await fetch(`${registryUrl}/v1/me/api-keys`, { method: "POST", headers: bearer(apiKey) });
  return (await response.json() as CreateApiKeyAnswer).apiKey.token;
}
