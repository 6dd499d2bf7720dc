/** `connector start` in one process: how a wrong clock is corrected before there is a link (D-89, D-199). */
import { assertEquals } from "@std/assert";
import { startConnector } from "../../../cli/connector/start.ts";
import { freePort } from "../../support/process.ts";
import { World } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";
import { until } from "./bench.ts";
import { contextOf } from "./context.ts";

Deno.test("a connector signs its refresh with the registry's time when the registry refuses its own", async () => {
  await using world = await World.open();
  await using machine = await Machine.ofPerson(world);
  await machine.json("agent", "create", "alpha");
  await world.clock.advance(16 * 60_000);
  const aheadMs = 10 * 60_000;
  const signedAt: number[] = [];
  machine.fetch = (input, init) => {
    if (!String(input).endsWith("/refresh")) return Promise.reject(new TypeError("not there"));
    signedAt.push(Number(new Headers(init?.headers).get("X-Svc-Timestamp")) * 1000 - world.clock.now());
    const error = { code: "AGENT_AUTH_REFRESH_UNAUTHORIZED", message: "m" };
    const headers = { Date: new Date(world.clock.now() + aheadMs).toUTCString() };
    return Promise.resolve(Response.json({ error }, { status: 401, headers }));
  };
  let stop = () => {};
  const options = { "proxy-ws-url": `ws://127.0.0.1:${freePort()}`, port: String(freePort()), "allow-insecure": false };
  const ended = startConnector(contextOf(world, machine), "alpha", options, (given) => {
    stop = given;
    return () => {};
  });
  await until("it has signed twice", () => signedAt.length >= 2);
  stop();
  await world.clock.advance(5_000);
  assertEquals(await ended, 0);
  assertEquals(signedAt.slice(0, 2).map((ms) => Math.round(ms / 60_000)), [0, 10]);
});
