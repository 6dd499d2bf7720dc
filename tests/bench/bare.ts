/**
 * A bare server, to compare the service with the runtime alone. Answers `/bytes` with a fixed text of the given length,
 * `/looked` with the same text after one read of a store, and any other path with `ok`. Keeps every WebSocket open.
 *
 *   deno run --allow-net=127.0.0.1 tests/bench/bare.ts <bytes> [port]
 */
const [bytes = "0", port = "0"] = Deno.args;
const text = "x".repeat(Number(bytes));
const sockets = new Set<WebSocket>();
let store: Deno.Kv | undefined;

async function looked(): Promise<Response> {
  store ??= await Deno.openKv(":memory:");
  await store.get(["revision"]);
  return new Response(text);
}

function answer(request: Request): Response | Promise<Response> {
  if (request.headers.get("upgrade") === "websocket") {
    const { socket, response } = Deno.upgradeWebSocket(request);
    sockets.add(socket);
    socket.onclose = () => sockets.delete(socket);
    return response;
  }
  if (request.url.endsWith("/looked")) return looked();
  return new Response(request.url.endsWith("/bytes") ? text : "ok");
}

const server = Deno.serve({ hostname: "127.0.0.1", port: Number(port), onListen: () => {} }, answer);
console.log(`listening on http://127.0.0.1:${server.addr.port}`);
