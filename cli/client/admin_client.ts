/** Clients for the admin routes of registry and proxy, one row for each route. They do not retry or store anything. */
import type * as z from "zod";
import { type Query, searchOf } from "../../shared/client/http.ts";
import * as admin from "../../shared/protocol/api/admin.ts";
import { AuditList } from "../../shared/protocol/api/audit.ts";
import * as relay from "../../shared/protocol/api/relay_admin.ts";
import { type Answer, callService, type HttpDeps } from "../link/service_call.ts";

/** The registry's routes, with the API key of an admin. */
export class AdminClient {
  constructor(readonly deps: HttpDeps, readonly registryUrl: string, readonly apiKey: string) {}

  readonly counts = () => this.#call("GET", "counts", admin.AdminCounts);
  readonly people = (query: Query) => this.#call("GET", `people${searchOf(query)}`, admin.PeopleList);
  readonly person = (id: string) => this.#call("GET", personPath(id), admin.PersonAnswer);
  /** Stops a person's API keys and agents until `restore`. */
  readonly suspend = (id: string, reason: string | undefined) =>
    this.#call("POST", `${personPath(id)}/suspend`, admin.SuspensionAnswer, { reason });
  readonly restore = (id: string, reason: string | undefined) =>
    this.#call("POST", `${personPath(id)}/restore`, admin.SuspensionAnswer, { reason });
  readonly agents = (query: Query) => this.#call("GET", `agents${searchOf(query)}`, admin.AdminAgentList);
  readonly agent = (id: string) => this.#call("GET", agentPath(id), admin.AdminAgentAnswer);
  readonly deleteAgent = (id: string) => this.#call("DELETE", agentPath(id), null);
  readonly endSession = (id: string) => this.#call("DELETE", `${agentPath(id)}/auth/revoke`, null);
  /** Makes an address that opens the console once. */
  readonly consoleCode = () => this.#call("POST", "console-codes", admin.ConsoleCode);
  readonly audit = (query: Query) => this.#call("GET", `audit${searchOf(query)}`, AuditList);
  /** Makes a token for the proxy. With the API key itself, the proxy's operator could administer the registry. */
  readonly relayToken = () => this.#call("POST", "tokens", relay.AdminTokenAnswer);

  #call<S extends z.ZodType | null>(method: "GET" | "POST" | "DELETE", path: string, response: S, body?: object) {
    const url = `${this.registryUrl}/v1/admin/${path}`;
    return callService(this.deps, { method, url, token: this.apiKey, body: JSON.stringify(body), response });
  }
}

const personPath = (id: string) => `people/${encodeURIComponent(id)}`;
const agentPath = (id: string) => `agents/${encodeURIComponent(id)}`;

/** The proxy's routes, with a token of the registry. */
export class RelayAdminClient {
  constructor(readonly deps: HttpDeps, readonly proxyUrl: string, readonly token: string) {}

  readonly overview = () => this.#get("overview", {}, relay.RelayOverview);
  readonly connections = (query: Query) => this.#get("connections", query, relay.ConnectionList);
  readonly queues = (query: Query) => this.#get("queues", query, relay.QueueList);
  readonly deliveries = (requestId: string) => this.#get("deliveries", { requestId }, relay.DeliveryList);
  readonly issuers = () => this.#get("issuers", {}, relay.IssuerList);
  readonly refusals = (query: Query) => this.#get("refusals", query, relay.RefusalList);

  #get<S extends z.ZodType>(name: string, query: Query, response: S): Promise<Answer<S>> {
    const url = `${this.proxyUrl}/v1/admin/relay/${name}${searchOf(query)}`;
    return callService(this.deps, { method: "GET", url, token: this.token, response });
  }
}
