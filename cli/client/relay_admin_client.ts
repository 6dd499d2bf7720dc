/** Client of the proxy's admin routes: one method per route. Retries nothing and stores nothing. */
import type * as z from "zod";
import * as relay from "../../shared/protocol/api/relay_admin.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { type Answer, callService, type HttpDeps } from "../link/service_call.ts";

/** Parameters of a list; those that are absent are not sent. */
type Query = Readonly<Record<string, string | undefined>>;

export class RelayAdminClient {
  constructor(readonly deps: HttpDeps, readonly proxyUrl: string, readonly token: string) {}

  overview(): Promise<relay.RelayOverview> {
    return this.#get("overview", {}, relay.RelayOverview);
  }

  connections(query: Query): Promise<relay.ConnectionList> {
    return this.#get("connections", query, relay.ConnectionList);
  }

  queues(query: Query): Promise<relay.QueueList> {
    return this.#get("queues", query, relay.QueueList);
  }

  deliveries(requestId: string): Promise<relay.DeliveryList> {
    return this.#get("deliveries", { requestId }, relay.DeliveryList);
  }

  issuers(): Promise<relay.IssuerList> {
    return this.#get("issuers", {}, relay.IssuerList);
  }

  refusals(query: Query): Promise<relay.RefusalList> {
    return this.#get("refusals", query, relay.RefusalList);
  }

  #get<S extends z.ZodType>(name: string, query: Query, response: S): Promise<Answer<S>> {
    const given = Object.entries(query).flatMap(([key, value]) => value === undefined ? [] : [[key, value]]);
    return callService(this.deps, {
      method: "GET",
      url: `${this.proxyUrl}/v1/admin/relay/${name}?${new URLSearchParams(given)}`,
      headers: { [HEADERS.authorization]: `Bearer ${this.token}` },
      response,
    });
  }
}
