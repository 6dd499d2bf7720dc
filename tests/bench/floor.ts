/**
 * The floor: the minimum that any service of this kind does for a message on this runtime. Bare `Deno.serve`, one
 * SHA-256, one native Ed25519 verification, a frame to the recipient's WebSocket, its ack, a 202. Nothing is stored.
 *
 * FROZEN: figures of different days can only be compared while the code of this file is unchanged.
 *
 *   deno run --allow-net=127.0.0.1 tests/bench/floor.ts <public key> <SHA-256 of the token>
 */
import { createHash } from "node:crypto";

const [publicKey = "", aitSha256 = ""] = Deno.args;
const key = await crypto.subtle.importKey("raw", bytesOf(publicKey), "Ed25519", true, ["verify"]);
const sockets = new Map<string, WebSocket>();
const waiting = new Map<number, (accepted: boolean) => void>();
const encoder = new TextEncoder();
let origin = "";
let frames = 0;

function bytesOf(base64Url: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromBase64(base64Url, { alphabet: "base64url" });
}

function connect(request: Request): Response {
  const agent = request.headers.get("x-bench-agent") ?? "";
  const { socket, response } = Deno.upgradeWebSocket(request);
  sockets.set(agent, socket);
  socket.onmessage = ({ data }) => {
    const { ackId, accepted } = JSON.parse(data) as { ackId: number; accepted: boolean };
    waiting.get(ackId)?.(accepted);
    waiting.delete(ackId);
  };
  return response;
}

async function deliver(request: Request): Promise<Response> {
  const { headers } = request;
  const body = new Uint8Array(await request.arrayBuffer());
  const hash = createHash("sha256").update(body).digest("base64url");
  const recipient = headers.get("x-svc-recipient-agent-did") ?? "";
  const signed = `SVC-PROOF-V1\nPOST\n${origin}\n/hooks/agent\n${headers.get("x-svc-timestamp")}\n` +
    `${headers.get("x-svc-nonce")}\n${hash}\n${recipient}\n${aitSha256}`;
  const proof = bytesOf(headers.get("x-svc-proof") ?? "");
  if (!await crypto.subtle.verify("Ed25519", key, proof, encoder.encode(signed))) {
    return new Response("wrong proof", { status: 401 });
  }
  const socket = sockets.get(recipient);
  if (!socket) return new Response("not connected", { status: 502 });
  const requestId = headers.get("x-request-id");
  const id = ++frames;
  const acked = new Promise<boolean>((resolve) => waiting.set(id, resolve));
  const head = JSON.stringify({ type: "deliver", id, requestId, fromAgentDid: headers.get("x-bench-agent") });
  socket.send(`${head.slice(0, -1)},"payload":${new TextDecoder().decode(body)}}`);
  return Response.json({ accepted: true, delivered: await acked, requestId }, { status: 202 });
}

const server = Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: () => {},
}, (request) => request.headers.get("upgrade") === "websocket" ? connect(request) : deliver(request));
origin = `http://127.0.0.1:${server.addr.port}`;
console.log(`listening on ${origin}`);
