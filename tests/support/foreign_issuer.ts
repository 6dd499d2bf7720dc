/** The registry of another server, as a proxy sees it: its keys, its revocation list, and agents with visit tokens. */
import type { ProxyExternals } from "../../proxy/deps.ts";
import { type KeyPair, keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import { type NewId, ulidSource } from "../../shared/protocol/ids.ts";
import { signAit } from "../../shared/protocol/signed/ait.ts";
import { type Revocation, signCrl } from "../../shared/protocol/signed/crl.ts";
import type { SigningKey } from "../../shared/protocol/signed/jws.ts";
import { signShortToken, VIS, type VisitTokenClaims } from "../../shared/protocol/signed/short_token.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import type { Clock } from "../../shared/clock.ts";
import type { AgentIdentity } from "./agent_client.ts";
import { seededRandom } from "./seeded_random.ts";
import { PROXY_URL } from "./world.ts";

/** An agent of the other registry, with what a signed request of it needs. `accessToken` is its visit token. */
export interface ForeignAgent {
  agent: { did: string; name: string };
  ownerDid: string;
  jti: string;
  keys: KeyPair;
  identity: AgentIdentity;
}

export class ForeignIssuer {
  readonly #clock: Clock;
  readonly #random;
  readonly newId: NewId;
  #signing: KeyPair;
  /** Public keys of the time before each rotation. */
  readonly #retired: { kid: string; x: string }[] = [];
  /** Paths that were asked for. */
  readonly asked: string[] = [];
  readonly revocations: Revocation[] = [];
  seq = 1;
  /** Answers in place of the documents when a test sets it. */
  answer: ((request: Request) => Promise<Response | null> | Response | null) | null = null;
  addresses: { address: string; family: number }[] = [{ address: "93.184.215.14", family: 4 }];

  private constructor(clock: Clock, readonly origin: string, signing: KeyPair, seed: number) {
    this.#clock = clock;
    this.#signing = signing;
    this.#random = seededRandom(seed);
    this.newId = ulidSource(() => clock.now(), this.#random.bytes);
  }

  static async open(clock: Clock, origin = "https://b.example", seed = 77): Promise<ForeignIssuer> {
    return new ForeignIssuer(clock, origin, await keyPairFromSeed(new Uint8Array(32).fill(seed)), seed);
  }

  get authority(): string {
    return new URL(this.origin).hostname;
  }

  get key(): SigningKey {
    return { kid: `key-${this.#retired.length}-of-${this.authority}`, privateKey: this.#signing.privateKey };
  }

  /** Signs with a new key from now on. */
  async rotate(): Promise<void> {
    this.#retired.push({ kid: this.key.kid, x: this.#signing.publicKey });
    this.#signing = await keyPairFromSeed(this.#random.bytes(32));
  }

  /** How a proxy reaches it. */
  readonly abroad: ProxyExternals["abroad"] = {
    send: async (request) => await this.#serve(request),
    lookup: () => Promise.resolve(this.addresses),
  };

  /** Registers an agent; its visit token is for `audience`. */
  async agent(name = "beta", audience = PROXY_URL, more: { did?: string; jti?: string } = {}): Promise<ForeignAgent> {
    const keys = await keyPairFromSeed(this.#random.bytes(32));
    const did = more.did ?? `did:svc:${this.authority}:agent:${this.newId()}`, jti = more.jti ?? this.newId();
    const ownerDid = `did:svc:${this.authority}:human:${this.newId()}`;
    const issuedAtSeconds = unixSeconds(this.#clock.now());
    const ait = await signAit({
      issuer: this.origin,
      agentDid: did,
      ownerDid,
      name,
      framework: "generic",
      publicKey: keys.publicKey,
      jti,
      issuedAtSeconds,
      ttlDays: 30,
    }, this.key);
    const agent = { agent: { did, name }, ownerDid, jti, keys };
    const accessToken = await this.visit(agent, { aud: audience });
    return { ...agent, identity: { did, ait, privateKey: keys.privateKey, accessToken } };
  }

  /** A visit token of an agent, with any claim replaced. */
  visit(agent: Pick<ForeignAgent, "agent" | "jti">, more: Partial<VisitTokenClaims> = {}): Promise<string> {
    return signShortToken(VIS, {
      iss: this.origin,
      sub: agent.agent.did,
      aud: PROXY_URL,
      proxy: this.origin.startsWith("https:") ? `https://relay.${this.authority}` : this.origin,
      aitJti: agent.jti,
      iat: unixSeconds(this.#clock.now()),
      jti: this.newId(),
      ...more,
    }, this.key);
  }

  /** Revokes an agent in the next list. */
  revoke({ agent, jti }: Pick<ForeignAgent, "agent" | "jti">, reason: Revocation["reason"] = "agent_deleted"): void {
    this.revocations.unshift({ jti, agentDid: agent.did, reason, revokedAt: unixSeconds(this.#clock.now()) });
    this.seq++;
  }

  async #serve(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    this.asked.push(pathname);
    const answer = await this.answer?.(request);
    if (answer) return answer;
    if (pathname === "/.well-known/svc-keys.json") {
      const form = { kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig" };
      const active = { ...form, kid: this.key.kid, x: this.#signing.publicKey, status: "active" };
      const retired = this.#retired.map((key) => ({ ...form, ...key, status: "retired" }));
      return Response.json({ keys: [active, ...retired] });
    }
    const issuedAtSeconds = unixSeconds(this.#clock.now());
    const { origin: issuer, seq, revocations } = this;
    return Response.json({
      crl: await signCrl({ issuer, jti: this.newId(), issuedAtSeconds, seq, revocations }, this.key),
    });
  }
}
