/** A world with an admin's token for the proxy, and requests with it. */
import { assertEquals } from "@std/assert";
import type { DeliveryTimeline, RefusalList } from "../../../shared/protocol/api/relay_admin.ts";
import { answered } from "../../support/registry_world.ts";
import { PROXY_URL, type World } from "../../support/world.ts";

/** Gets a token from the registry. */
export async function tokenOf(w: World): Promise<string> {
  const { apiKey } = await w.admin();
  const { token } = await answered<{ token: string }>(await w.ask("POST", "/v1/admin/tokens", { apiKey }), 201);
  return token;
}

/** Sends a request to an admin route of the proxy; `null` sends no credential. */
export async function look(
  w: World,
  path: string,
  token: string | null,
  headers: Record<string, string> = {},
): Promise<Response> {
  const credential: Record<string, string> = token === null ? {} : { Authorization: `Bearer ${token}` };
  return await w.fetch(`${PROXY_URL}/v1/admin/relay/${path}`, { headers: { ...credential, ...headers } });
}

/** Returns the body of an answer to a new token. */
export async function seen<T>(w: World, path: string): Promise<T> {
  return await answered<T>(await look(w, path, await tokenOf(w)));
}

/** Returns the only timeline of a request ID. */
export async function timelineOf(w: World, requestId: string): Promise<DeliveryTimeline> {
  const { deliveries } = await seen<{ deliveries: DeliveryTimeline[] }>(w, `deliveries?requestId=${requestId}`);
  assertEquals(deliveries.length, 1);
  return deliveries[0] as DeliveryTimeline;
}

/** The events of the message, each with the seconds since its start. */
export async function storyOf(w: World, requestId: string): Promise<{ state: string; events: string[] }> {
  const { state, events } = await timelineOf(w, requestId);
  const began = Date.parse(events[0]?.at ?? "");
  return {
    state,
    events: events.map(({ at, event, detail }) =>
      `+${(Date.parse(at) - began) / 1000} ${event}${detail === undefined ? "" : `: ${detail}`}`
    ),
  };
}

/** Returns the refusals that fit a query. */
export async function refusalsOf(w: World, query = ""): Promise<RefusalList["refusals"]> {
  return (await seen<RefusalList>(w, `refusals${query}`)).refusals;
}
