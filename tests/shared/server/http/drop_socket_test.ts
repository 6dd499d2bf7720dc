/** The part of Deno's WebSocket that starts its idle timeout again is called for some frames only, and counts pongs. */
import { assertEquals } from "@std/assert";
import { watchPongs } from "../../../../shared/server/http/drop_socket.ts";

const MEMBER = Object.getOwnPropertySymbols(WebSocket.prototype)
  .find(({ description }) => description === "[[serverHandleIdleTimeout]]") as symbol;

Deno.test("frames start the idle timeout again at most every 5 s, and each pong counts", () => {
  let now = 0, starts = 0, pongs = 0;
  const socket = Object.assign(new EventTarget(), { [MEMBER]: () => starts++ });
  watchPongs(socket as unknown as WebSocket, { uptime: () => now }, () => pongs++);
  const frame = (ms: number, isPong = false) => {
    now += ms;
    (socket as unknown as Record<symbol, () => void>)[MEMBER]?.();
    if (!isPong) socket.dispatchEvent(new Event("message"));
    return [starts, pongs];
  };
  assertEquals([frame(0), frame(4_999), frame(1), frame(4_999)], [[1, 0], [1, 0], [2, 0], [2, 0]]);
  // A pong answers a ping, which Deno sends after 22 s without a start, so it always starts the timeout again.
  assertEquals([frame(22_500, true), frame(1, true), frame(1)], [[3, 0], [3, 1], [3, 2]]);
});
