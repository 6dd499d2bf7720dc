/**
 * A client of the protocol, written from docs/protocol.md alone. It imports nothing of the project: where the document
 * is wrong or has a gap, protocol_client_test.ts fails. It does not retry and does not refresh the session.
 */
import { createHash, createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { request as httpRequest } from "node:http";
import type { Duplex } from "node:stream";

/** Members of a JSON object. */
type Members = Record<string, unknown>;

/** An answer of a service, its body parsed. */
export interface Answer {
  status: number;
  requestId: string | null;
  body: unknown;
}

export interface Agent {
  did: string;
  ait: string;
  accessToken: string;
  key: KeyObject;
}

/** A frame of the relay socket: the members of every frame, and those of `deliver` and `paired`. */
export interface Frame {
  v: number;
  type: string;
  id: string;
  ts: string;
  requestId: string;
  fromAgentDid: string;
  toAgentDid: string;
  conversationId?: string;
  inReplyTo?: string;
  auto?: true;
  identity: { agentDid: string; ownerDid: string; issuer: string; aitJti: string; name: string };
  payload: { message: string };
  peerAgentDid: string;
  profile: { agentName: string; humanName: string };
}

type Challenge = Record<"challengeId" | "nonce" | "ownerDid", string>;
type Registered = { agent: { did: string }; ait: string; agentAuth: { accessToken: string } };

const base64url = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64url");

/** base64url SHA-256 of a text in UTF-8. */
export const sha256 = (text: string): string => base64url(createHash("sha256").update(text, "utf8").digest());

/** base64url Ed25519 signature of a text in UTF-8. */
export const signText = (key: KeyObject, text: string): string => base64url(sign(null, Buffer.from(text, "utf8"), key));

/** Private key of a seed and a public key, both 32 bytes in base64url. */
export function privateKeyOf({ seed, x }: { seed: string; x: string }): KeyObject {
  return createPrivateKey({ key: { kty: "OKP", crv: "Ed25519", d: seed, x }, format: "jwk" });
}

/** The text that proves possession of the key when an agent is registered. */
export function registrationMessage(values: Members): string {
  const names = ["challengeId", "nonce", "ownerDid", "publicKey", "name", "framework", "ttlDays"];
  return ["svc.register.v1", ...names.map((name) => `${name}:${values[name] ?? ""}`)].join("\n");
}

/** What a proof of possession covers. */
export interface SignedParts {
  method: string;
  origin: string;
  /** Path and query, as sent. */
  path: string;
  /** Unix seconds. */
  timestamp: string;
  nonce: string;
  bodySha256: string;
  recipient?: string | null;
  ait: string;
}

/** The text that a request's proof signs. */
export function canonicalString(parts: SignedParts): string {
  const { method, origin, path, timestamp, nonce, bodySha256, recipient, ait } = parts;
  return ["SVC-PROOF-V1", method, origin, path, timestamp, nonce, bodySha256, recipient ?? "", sha256(ait)].join("\n");
}

/** Headers that the context of a message does not cover. */
const UNBOUND = ["timestamp", "nonce", "body-sha256", "proof", "agent-access", "recipient-agent-did", "features"];

/** The context of a message: its bound headers. */
export function contextOf(headers: readonly (readonly [name: string, value: string])[]): string {
  const bound = headers.map(([name, value]) => [name.toLowerCase(), value.trim()] as const)
    .filter(([name]) =>
      name === "content-type" || name === "x-request-id" ||
      name.startsWith("x-svc-") && !UNBOUND.includes(name.slice("x-svc-".length))
    );
  bound.sort(([a], [b]) => a < b ? -1 : 1);
  return ["SVC-CONTEXT-V1", ...bound.map(([name, value]) => `${name}:${value}`)].join("\n");
}

/** A ULID of the present time. */
export function newUlid(): string {
  const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  const time = Array.from({ length: 10 }, (_, i) => digits[Math.floor(Date.now() / 32 ** (9 - i)) % 32]);
  return [...time, ...Array.from(randomBytes(16), (byte) => digits[byte % 32])].join("");
}

/** Sends one HTTP request; a body is JSON text. */
export async function call(
  method: string,
  url: string,
  headers: Record<string, string> = {},
  body?: string,
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
    ...(body === undefined ? {} : { body }),
  });
  const text = await response.text();
  return {
    status: response.status,
    requestId: response.headers.get("x-request-id"),
    body: text === "" ? {} : JSON.parse(text),
  };
}

/** The services at their public origins, as `GET /v1/metadata` names them. */
export class Client {
  private constructor(readonly registryUrl: string, readonly proxyUrl: string) {}

  static async discover(registryUrl: string): Promise<Client> {
    const answer = await call("GET", `${registryUrl}/v1/metadata`);
    const metadata = expectStatus<{ registryUrl: string; proxyUrl: string }>(answer, 200);
    return new Client(metadata.registryUrl, metadata.proxyUrl);
  }

  /** Creates an account with an invite code. Returns its API key. */
  async redeem(code: string, displayName: string): Promise<string> {
    const body = JSON.stringify({ code, displayName, apiKeyName: "laptop" });
    const answer = await call("POST", `${this.registryUrl}/v1/invites/redeem`, {}, body);
    return expectStatus<{ apiKey: { token: string } }>(answer, 201).apiKey.token;
  }

  /** Registers a new agent of the account. */
  async register(apiKey: string, name: string): Promise<Agent> {
    const { publicKey: half, privateKey: key } = generateKeyPairSync("ed25519");
    const publicKey = half.export({ format: "jwk" }).x ?? "";
    const headers = { Authorization: `Bearer ${apiKey}` };
    const post = async <T>(path: string, body: Members) =>
      expectStatus<T>(await call("POST", this.registryUrl + path, headers, JSON.stringify(body)), 201);
    const challenge = await post<Challenge>("/v1/agents/challenge", { publicKey });
    const challengeSignature = signText(key, registrationMessage({ ...challenge, publicKey, name }));
    const { challengeId } = challenge;
    const registration = { name, publicKey, challengeId, challengeSignature };
    const { agent, ait, agentAuth } = await post<Registered>("/v1/agents", registration);
    return { did: agent.did, ait, accessToken: agentAuth.accessToken, key };
  }

  /** Sends a signed request to the proxy. */
  async signed(agent: Agent, method: string, path: string, body?: Members, more: Record<string, string> = {}) {
    const text = body && JSON.stringify(body);
    const headers = this.signedHeaders(agent, method, path, text, more["X-Svc-Recipient-Agent-Did"]);
    return await call(method, this.proxyUrl + path, { ...headers, ...more }, text);
  }

  signedHeaders(agent: Agent, method: string, path: string, body = "", recipient = ""): Record<string, string> {
    const timestamp = String(Math.floor(Date.now() / 1000));
    const nonce = base64url(randomBytes(16));
    const bodySha256 = sha256(body);
    const { ait, key, accessToken } = agent;
    const text = canonicalString({
      method,
      origin: this.proxyUrl,
      path,
      timestamp,
      nonce,
      bodySha256,
      recipient,
      ait,
    });
    return {
      "Authorization": `Svc ${ait}`,
      "X-Svc-Timestamp": timestamp,
      "X-Svc-Nonce": nonce,
      "X-Svc-Body-SHA256": bodySha256,
      "X-Svc-Proof": signText(key, text),
      "X-Svc-Agent-Access": accessToken,
    };
  }

  /** Sends a message with a signed context; `more` are additional message headers. */
  send(from: Agent, recipientDid: string, payload: Members, more: Record<string, string> = {}): Promise<Answer> {
    const headers = {
      "Content-Type": "application/json",
      "x-request-id": newUlid(),
      "X-Svc-Recipient-Agent-Did": recipientDid,
      ...more,
    };
    return this.signed(
      from,
      "POST",
      `/hooks/agent?ctx=${sha256(contextOf(Object.entries(headers)))}`,
      payload,
      headers,
    );
  }

  /** Opens the relay socket of an agent. */
  connect(agent: Agent): Promise<RelaySocket> {
    const path = "/v1/relay/connect";
    const key = base64of(randomBytes(16));
    const { promise, resolve, reject } = Promise.withResolvers<RelaySocket>();
    const request = httpRequest(this.proxyUrl + path, {
      headers: {
        ...this.signedHeaders(agent, "GET", path),
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
      },
    });
    request.on("upgrade", (response, stream: Duplex, head: Uint8Array) => {
      if (response.headers["sec-websocket-accept"] !== acceptOf(key)) reject(new Error("The upgrade is not RFC 6455"));
      else resolve(new RelaySocket(stream, head));
    });
    request.on("response", (response) => reject(new Error(`The upgrade was refused with ${response.statusCode}`)));
    request.on("error", reject);
    request.end();
    return promise;
  }
}

/**
 * Returns the body of an answer, with the members that the document states for it.
 *
 * @throws {Error} when the status is another one
 */
export function expectStatus<T>({ status, body }: Answer, expected: number): T {
  if (status !== expected) throw new Error(`Status ${status} in place of ${expected}: ${JSON.stringify(body)}`);
  return body as T;
}

const base64of = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");

/** The answer to a WebSocket key (RFC 6455 section 4.2.2). */
function acceptOf(key: string): string {
  return base64of(createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest());
}

const TEXT = 1, CLOSE = 8, PING = 9, PONG = 10;

/** A relay socket (RFC 6455). Acknowledges messages and heartbeats, and keeps the other frames for `next`. */
export class RelaySocket {
  #rest: Buffer;
  #parts: Buffer[] = [];
  readonly #frames: Frame[] = [];
  readonly #waiting: (() => void)[] = [];
  #isClosed = false;

  constructor(readonly stream: Duplex, head: Uint8Array) {
    this.#rest = Buffer.from(head);
    stream.on("data", (bytes: Uint8Array) => {
      this.#rest = Buffer.concat([this.#rest, bytes]);
      this.#read();
    });
    const end = () => {
      this.#isClosed = true;
      this.#wake();
    };
    stream.on("close", end);
    stream.on("end", end);
    stream.on("error", end);
    this.#read();
  }

  /**
   * Returns the next frame of a type that the proxy sent.
   *
   * @throws {Error} when the socket closes first
   */
  async next(type: string): Promise<Frame> {
    while (true) {
      const at = this.#frames.findIndex((frame) => frame.type === type);
      if (at !== -1) return this.#frames.splice(at, 1)[0] as Frame;
      if (this.#isClosed) throw new Error(`The socket closed before a ${type} frame`);
      await new Promise<void>((wake) => this.#waiting.push(wake));
    }
  }

  close(): void {
    if (this.#isClosed) return;
    this.#write(CLOSE, Buffer.from([1000 >> 8, 1000 & 255]));
    this.stream.end();
  }

  /** Reads the WebSocket frames that have arrived completely. */
  #read(): void {
    for (let frame = takeFrame(this.#rest); frame; frame = takeFrame(this.#rest)) {
      this.#rest = frame.rest;
      if (frame.opcode === PING) this.#write(PONG, frame.payload);
      else if (frame.opcode === CLOSE) this.close();
      else if (frame.opcode <= TEXT) {
        this.#parts.push(frame.payload);
        if (frame.isLast) this.#handle(JSON.parse(Buffer.concat(this.#parts.splice(0)).toString("utf8")));
      }
    }
  }

  #handle(frame: Frame): void {
    if (frame.type === "heartbeat") this.#send({ type: "heartbeat_ack", ackId: frame.id });
    if (frame.type === "deliver") this.#send({ type: "deliver_ack", ackId: frame.id, accepted: true });
    this.#frames.push(frame);
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  #send(members: Members): void {
    const frame = { v: 1, id: newUlid(), ts: new Date().toISOString(), ...members };
    this.#write(TEXT, Buffer.from(JSON.stringify(frame), "utf8"));
  }

  /** Writes one masked frame of less than 64 KiB. */
  #write(opcode: number, payload: Uint8Array): void {
    const size = payload.length < 126 ? [payload.length] : [126, payload.length >> 8, payload.length & 255];
    const mask = randomBytes(4);
    const masked = payload.map((byte, i) => byte ^ (mask[i % 4] ?? 0));
    const [first = 0, ...more] = size;
    this.stream.write(Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | first, ...more]), mask, masked]));
  }
}

/** The first WebSocket frame of the bytes, or null when it has not arrived completely. A server's frame has no mask. */
function takeFrame(bytes: Buffer): { opcode: number; isLast: boolean; payload: Buffer; rest: Buffer } | null {
  if (bytes.length < 2) return null;
  const code = bytes.readUInt8(1) & 127;
  const start = code === 126 ? 4 : code === 127 ? 10 : 2;
  if (bytes.length < start) return null;
  const size = code === 126 ? bytes.readUInt16BE(2) : code === 127 ? Number(bytes.readBigUInt64BE(2)) : code;
  if (bytes.length < start + size) return null;
  const first = bytes.readUInt8(0);
  return {
    opcode: first & 15,
    isLast: first >= 0x80,
    payload: bytes.subarray(start, start + size),
    rest: bytes.subarray(start + size),
  };
}
