/**
 * A relay that lies: a process between connectors and a real proxy, which they dial with `--proxy-ws-url`. It passes everything on,
 * HTTP and frames both ways, and a JSON line `{"attack":"<name>"}` on standard input arms one attack of the table for the next
 * thing that it fits. It prints one JSON line for its address, for each attack that it has made, and for the acknowledgement
 * of each frame that it has changed or invented.
 *
 *   deno run -A tests/support/hostile_proxy.ts <origin of the proxy>
 */
// @ts-types="../../cli/link/ws.d.ts"
import { WebSocket as Upstream } from "ws";
import { ulidSource } from "../../shared/protocol/ids.ts";

/** A JSON object from outside. */
export type Json = Record<string, unknown>;

/** What the relay has seen so far. */
interface Seen {
  /** Messages that it passed on unchanged, the newest last. */
  frames: Json[];
  /** Headers of the last request of an agent to a path, by `<DID> <path>`. */
  requests: Map<string, Headers>;
  /** Identity tokens by DID. */
  tokens: Map<string, string>;
  /** Signed receipts, the newest last. */
  receipts: Json[];
}

/** What an attack makes of a message to a connector. Several frames: all of them are sent, in this order. */
type OnFrame = (frame: Json, seen: Seen) => Json[];
/** What an attack makes of an answer of the proxy. */
interface OnAnswer {
  path: string;
  change(body: Json, seen: Seen): Json;
  headers?: Record<string, string>;
  status?: number;
}

/** The message before, which some attacks need. */
const before = ({ frames }: Seen): Json => frames.at(-1) ?? {};
const proofOf = (frame: Json): Json => (frame.proof ?? {}) as Json;
const set = (changes: Json): OnFrame => (frame) => [{ ...frame, ...changes }];
const inProof = (changes: Json): OnFrame => (frame) => [{ ...frame, proof: { ...proofOf(frame), ...changes } }];
const without = (...names: string[]): OnFrame => (frame) => [
  Object.fromEntries(Object.entries(frame).filter(([name]) => !names.includes(name))),
];
/** A message with the proof of another request of its sender. */
const withRequest = (path: string): OnFrame => (frame, { requests }) => {
  const headers = requests.get(`${frame.fromAgentDid} ${path}`) ?? new Headers();
  const signed = {
    ait: headers.get("authorization")?.replace(/^Svc /, ""),
    timestamp: headers.get("x-svc-timestamp"),
    nonce: headers.get("x-svc-nonce"),
    signature: headers.get("x-svc-proof"),
    target: path,
    context: {},
  };
  return [{ ...frame, proof: { ...proofOf(frame), ...signed } }];
};
const rows = (body: Json): Json[] => (body.receipts ?? []) as Json[];
const onReceipts = (change: (row: Json, seen: Seen) => Json): OnAnswer => ({
  path: "/v1/relay/delivery-receipts",
  change: (body, seen) => ({ ...body, receipts: rows(body).map((row) => change(row, seen)) }),
});
/** Another agent's name for the attacks on pairing; it exists nowhere. */
export const STRANGER = "did:svc:127.0.0.1:agent:01KHYQ5H00BBBBBBBBBBBBBBBB";

/** As many agents as a relay may invent. */
const CROWD = 20_000;

function crowd(): Json[] {
  return Array.from({ length: CROWD }, (_, n) => ({
    agentDid: `did:svc:127.0.0.1:agent:01KHYQ5H00${String(n).padStart(16, "0")}`,
    profile: { agentName: `a${n}`, humanName: "E" },
    pairedAt: "2026-02-21T00:00:00.000Z",
    online: null,
    lastSeenAt: null,
  }));
}

export const FRAME_ATTACKS = {
  payload: (frame) => [{ ...frame, payload: `{"message":"send money","was":${JSON.stringify(frame.payload).length}}` }],
  white_space: (frame) => [{ ...frame, payload: `${frame.payload} ` }],
  edit: inProof({ edit: [0, 1, "{ "] }),
  edit_beyond_the_end: inProof({ edit: [0, 10_000_000, ""] }),
  payload_of_another: (frame, seen) => [{ ...frame, payload: before(seen).payload }],
  no_proof: without("proof"),
  half_a_proof: (frame) => [{ ...frame, proof: { ait: proofOf(frame).ait } }],
  huge_proof: inProof({ signature: "A".repeat(300_000) }),
  garbage_signature: inProof({ signature: "A".repeat(86) }),
  proof_of_a_connect: withRequest("/v1/relay/connect"),
  proof_of_another_call: withRequest("/pair/peers"),
  proof_of_a_pair_start: withRequest("/pair/start"),
  token_of_another: (frame, seen) => inProof({ ait: seen.tokens.get(String(frame.toAgentDid)) })(frame, seen),
  another_sender: set({ fromAgentDid: STRANGER }),
  another_recipient: set({ toAgentDid: STRANGER }),
  another_origin: inProof({ origin: "https://evil.example" }),
  another_time: inProof({ timestamp: "1771632000" }),
  no_context: inProof({ target: "/hooks/agent", context: {} }),
  request_id: set({ requestId: "another-request" }),
  conversation: set({ conversationId: "another" }),
  no_conversation: without("conversationId"),
  in_reply_to: set({ inReplyTo: "another-question" }),
  auto: set({ auto: true }),
  content_type: set({ contentType: "text/plain" }),
  identity: (frame) => [{ ...frame, identity: { ...frame.identity as Json, agentDid: STRANGER, name: "admin" } }],
  attempt: set({ attempt: 9 }),
  replay: (frame, seen) => [before(seen), frame],
  replay_under_another_id: (frame, seen) => [{ ...before(seen), requestId: "another-request" }, frame],
  replay_in_another_conversation: (frame, seen) => [{ ...before(seen), conversationId: "another" }, frame],
  flood: (frame) => Array.from({ length: 500 }, (_, i) => ({ ...frame, payload: `{"message":"${i}"}` })),
} satisfies Record<string, OnFrame>;

export const ANSWER_ATTACKS = {
  pair_key_stripped: {
    path: "/pair/confirm",
    change: ({ initiatorKey: _key, ...body }) => body,
  },
  pair_key_forged: {
    path: "/pair/confirm",
    change: (body) => ({ ...body, initiatorKey: { ...body.initiatorKey as Json, mac: "A".repeat(43) } }),
  },
  pair_name: {
    path: "/pair/confirm",
    change: (body) => ({ ...body, initiatorProfile: { agentName: "boss", humanName: "Ada" } }),
  },
  listed_stranger: {
    path: "/pair/peers",
    change: (body) => ({
      ...body,
      peers: [...(body.peers as Json[]), {
        agentDid: STRANGER,
        profile: { agentName: "alpha", humanName: "Ada" },
        pairedAt: "2026-02-21T00:00:00.000Z",
        online: null,
        lastSeenAt: null,
      }],
    }),
  },
  listed_crowd: {
    path: "/pair/peers",
    change: (body) => ({ ...body, peers: [...body.peers as Json[], ...crowd()] }),
  },
  date: {
    path: "/pair/peers",
    status: 401,
    headers: { Date: new Date(Date.now() + 2 * 86_400_000).toUTCString() },
    change: () => ({
      error: { code: "PROXY_AUTH_TIMESTAMP_SKEW", message: "the clock is wrong", requestId: "request-of-relay" },
    }),
  },
  receipt_stripped: onReceipts(({ signed: _signed, ait: _ait, ...row }) => row),
  receipt_forged: onReceipts((row) => ({ ...row, signed: `${String(row.signed).slice(0, -86)}${"A".repeat(86)}` })),
  receipt_status: onReceipts((row) => ({ ...row, status: "dead_lettered" })),
  receipt_of_another: onReceipts((row, { receipts }) => {
    const { signed, ait } = receipts.findLast(({ requestId }) => requestId !== row.requestId) ?? {};
    return { ...row, signed, ait };
  }),
} satisfies Record<string, OnAnswer>;

export type AttackName = keyof typeof FRAME_ATTACKS | keyof typeof ANSWER_ATTACKS;

const MESSAGES_KEPT = 100;

class HostileProxy {
  readonly #seen: Seen = { frames: [], requests: new Map(), tokens: new Map(), receipts: [] };
  readonly #newId = ulidSource(() => Date.now(), (n) => crypto.getRandomValues(new Uint8Array(n)));
  #armed: string | null = null;

  constructor(readonly origin: string) {}

  arm(name: string): void {
    this.#armed = name;
  }

  /** Returns the armed attack when it is in the table, and disarms it. */
  #take<T>(table: Record<string, T>, fits: (attack: T) => boolean = () => true): { name: string; attack: T } | null {
    const name = this.#armed ?? "", attack = table[name];
    if (attack === undefined || !fits(attack)) return null;
    this.#armed = null;
    return { name, attack };
  }

  async answer(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    this.#remember(pathname, request.headers);
    if (request.headers.get("upgrade") === "websocket") return this.#connect(request, pathname + search);
    const headers = new Headers(request.headers);
    headers.delete("host");
    const body = request.body === null ? null : await request.arrayBuffer();
    const response = await fetch(this.origin + pathname + search, { method: request.method, headers, body });
    const armed = response.ok ? this.#take<OnAnswer>(ANSWER_ATTACKS, ({ path }) => path === pathname) : null;
    if (armed === null) {
      const text = await response.text();
      if (response.ok && pathname.endsWith("/delivery-receipts") && request.method === "GET") {
        this.#seen.receipts.push(...rows(JSON.parse(text)).filter(({ signed }) => signed !== undefined));
      }
      return new Response(text === "" ? null : text, { status: response.status, headers: plainHeaders(response) });
    }
    const { name, attack } = armed;
    const changed = attack.change(await response.json(), this.#seen);
    tell({ made: name });
    const shown = new Headers([...plainHeaders(response), ...Object.entries(attack.headers ?? {})]);
    for (const [header, value] of Object.entries(attack.headers ?? {})) shown.set(header, value);
    return Response.json(changed, { status: attack.status ?? response.status, headers: shown });
  }

  #remember(path: string, headers: Headers): void {
    const ait = headers.get("authorization")?.replace(/^Svc /, "") ?? "";
    const claims = ait.split(".")[1];
    if (claims === undefined) return;
    const { sub } = JSON.parse(atob(claims.replaceAll("-", "+").replaceAll("_", "/")));
    this.#seen.tokens.set(sub, ait);
    this.#seen.requests.set(`${sub} ${path}`, new Headers(headers));
  }

  #connect(request: Request, target: string): Response {
    const signed = [...request.headers].filter(([name]) => name.startsWith("x-svc-") || name === "authorization");
    const upstream = new Upstream(this.origin.replace(/^http/, "ws") + target, { headers: Object.fromEntries(signed) });
    const { socket, response } = Deno.upgradeWebSocket(request);
    const early: string[] = [];
    /** Frames of an attack by their IDs, and whether the proxy may see their acknowledgements. */
    const watched = new Map<string, { name: string; isPassed: boolean }>();
    upstream.on("message", (data) => {
      const text = new TextDecoder().decode(data);
      if (socket.readyState !== socket.OPEN) return void early.push(text);
      for (const sent of this.#changed(text, watched)) socket.send(sent);
    });
    socket.onopen = () => early.splice(0).forEach((text) => socket.send(text));
    const waiting: string[] = [];
    upstream.once("open", () => waiting.splice(0).forEach((text) => upstream.send(text)));
    socket.onmessage = ({ data }) => {
      const { type, ackId, accepted, reason } = JSON.parse(data);
      const known = type === "deliver_ack" ? watched.get(ackId) : undefined;
      if (known !== undefined) tell({ attack: known.name, accepted, reason: reason ?? null });
      if (known?.isPassed === false) return;
      if (upstream.readyState === Upstream.OPEN) upstream.send(data);
      else waiting.push(data);
    };
    upstream.on("error", () => socket.close());
    upstream.on("close", () => socket.close());
    socket.onclose = () => upstream.close();
    socket.onerror = () => upstream.close();
    return response;
  }

  #changed(text: string, watched: Map<string, { name: string; isPassed: boolean }>): string[] {
    const frame = JSON.parse(text) as Json;
    const armed = frame.type === "deliver" ? this.#take<OnFrame>(FRAME_ATTACKS) : null;
    if (armed === null) {
      if (frame.type === "deliver") this.#seen.frames = [...this.#seen.frames, frame].slice(-MESSAGES_KEPT);
      return [text];
    }
    const made = armed.attack(frame, this.#seen);
    return made.map((one, i) => {
      const isPassed = i === made.length - 1;
      const id = isPassed ? String(frame.id) : this.#newId();
      watched.set(id, { name: armed.name, isPassed });
      // The payload is the last member of a frame, as of the proxy's.
      const { payload, ...rest } = one;
      return JSON.stringify({ ...rest, id, payload });
    });
  }
}

/** The headers of an answer that still hold when its body is another. */
function plainHeaders({ headers }: Response): [string, string][] {
  return [...headers].filter(([name]) => !["content-length", "content-encoding", "transfer-encoding"].includes(name));
}

function tell(line: Json): void {
  console.log(JSON.stringify(line));
}

if (import.meta.main) {
  const proxy = new HostileProxy(Deno.args[0] ?? "");
  const onListen = ({ port }: Deno.NetAddr) => tell({ url: `http://127.0.0.1:${port}` });
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen }, (request) => proxy.answer(request));
  let text = "";
  for await (const part of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
    const lines = (text + part).split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) {
      const { attack } = JSON.parse(line);
      proxy.arm(attack);
      tell({ armed: attack });
    }
  }
  await server.shutdown();
}
