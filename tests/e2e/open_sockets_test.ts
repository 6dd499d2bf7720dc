/** Shows that a server can wait until each of many sockets is closed, before its process ends and cuts them off. */
import { assertEquals } from "@std/assert";
import { OpenSockets } from "../../shared/server/http/open_sockets.ts";

Deno.test("of 600 sockets that are closed at once none is open after the wait, nor one that left early", async () => {
  const sockets = new OpenSockets(), served: WebSocket[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
    const { socket, response } = await sockets.upgrade(request);
    socket.onopen = () => served.push(socket);
    return response;
  });
  const reasons: Promise<string>[] = [];
  for (let i = 0; i < 600; i++) {
    const client = new WebSocket(`ws://127.0.0.1:${server.addr.port}`);
    reasons.push(new Promise((resolve) => client.onclose = ({ reason }) => resolve(reason)));
    await new Promise<unknown>((resolve) => client.onopen = resolve);
  }
  served[0]?.close(1000, "early");
  assertEquals(await reasons[0], "early");
  for (const socket of served.slice(1)) socket.close(1001, "later");
  await sockets.closed(10_000);
  assertEquals(served.filter(({ readyState }) => readyState !== WebSocket.CLOSED).length, 0);
  await server.shutdown();
  assertEquals((await Promise.all(reasons.slice(1))).filter((reason) => reason !== "later"), []);
});
