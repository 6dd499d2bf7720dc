/** Shows that the handlers of the relay need the members that they declare, and no others (D-196). */
import { assertRejects } from "@std/assert";
import { relayConnect } from "../../../proxy/relay/connect.ts";
import { postMessage } from "../../../proxy/relay/deliver.ts";
import { InFlightBudget, withInFlightBudget } from "../../../proxy/relay/in_flight_budget.ts";
import { ServiceError } from "../../../shared/protocol/errors.ts";
import { openProxy } from "../proxy_world.ts";

Deno.test("relay handlers accept an object with only the members that they declare", async () => {
  await using w = await openProxy();
  const { clock, config, deliveries, dispatch, hub, mailbox, presence, lingering, revalidation, upgrade, metrics } =
    w.proxy.deps;
  const { injectIdentity, ackTimeoutMs } = config;
  const request = new Request("http://proxy.example/", { method: "POST" });
  const exchange = {
    request,
    requestId: "request-0001",
    peer: { from: "process" as const },
    ip: "",
    target: "/",
    body: new Uint8Array(),
    responseHeaders: new Map(),
  };
  const input = { params: undefined, query: undefined, body: undefined, caller: undefined, exchange };
  const forMessage = {
    clock,
    metrics,
    config: { injectIdentity, ackTimeoutMs },
    deliveries,
    dispatch,
    hub,
    mailbox,
    presence,
    held: new InFlightBudget(),
  };
  await assertRejects(() => withInFlightBudget(postMessage)(forMessage, input), ServiceError);
  await assertRejects(() => relayConnect({ dispatch, hub, lingering, revalidation, upgrade }, input), ServiceError);
});
