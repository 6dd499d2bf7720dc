/** Client of the registry's admin routes (D-170 to D-172): one method per route. Retries nothing and stores nothing. */
import type * as z from "zod";
import * as admin from "../../shared/protocol/api/admin.ts";
import * as audit from "../../shared/protocol/api/audit.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { type Answer, callService, type HttpDeps } from "../link/service_call.ts";

/** Parameters of a list; those that are absent are not sent. */
export type Query = Readonly<Record<string, string | undefined>>;

export class AdminClient {
  constructor(readonly deps: HttpDeps, readonly registryUrl: string, readonly apiKey: string) {}

  counts(): Promise<admin.AdminCounts> {
    return this.#call("GET", "/v1/admin/counts", admin.AdminCounts);
  }

  people(query: Query): Promise<admin.PeopleList> {
    return this.#call("GET", `/v1/admin/people${searchOf(query)}`, admin.PeopleList);
  }

  person(id: string): Promise<admin.PersonAnswer> {
    return this.#call("GET", `/v1/admin/people/${encodeURIComponent(id)}`, admin.PersonAnswer);
  }

  /** Refuses a person's API keys and ends the sessions of its agents. */
  suspend(id: string, reason: string | undefined): Promise<admin.SuspensionAnswer> {
    const path = `/v1/admin/people/${encodeURIComponent(id)}/suspend`;
    return this.#call("POST", path, admin.SuspensionAnswer, { reason });
  }

  /** Ends a suspension. */
  restore(id: string, reason: string | undefined): Promise<admin.SuspensionAnswer> {
    const path = `/v1/admin/people/${encodeURIComponent(id)}/restore`;
    return this.#call("POST", path, admin.SuspensionAnswer, { reason });
  }

  agents(query: Query): Promise<admin.AdminAgentList> {
    return this.#call("GET", `/v1/admin/agents${searchOf(query)}`, admin.AdminAgentList);
  }

  agent(id: string): Promise<admin.AdminAgentAnswer> {
    return this.#call("GET", agentPath(id), admin.AdminAgentAnswer);
  }

  /** Revokes an agent permanently. */
  deleteAgent(id: string): Promise<null> {
    return this.#call("DELETE", agentPath(id), null);
  }

  /** Ends an agent's session. The agent stays active. */
  endSession(id: string): Promise<null> {
    return this.#call("DELETE", `${agentPath(id)}/auth/revoke`, null);
  }

  /** Makes an address that opens the console once. */
  consoleCode(): Promise<admin.ConsoleCode> {
    return this.#call("POST", "/v1/admin/console-codes", admin.ConsoleCode);
  }

  audit(query: Query): Promise<audit.AuditList> {
    return this.#call("GET", `/v1/admin/audit${searchOf(query)}`, audit.AuditList);
  }

  #call<S extends z.ZodType | null>(
    method: "GET" | "POST" | "DELETE",
    path: string,
    response: S,
    body?: unknown,
  ): Promise<Answer<S>> {
    return callService(this.deps, {
      method,
      url: this.registryUrl + path,
      headers: { [HEADERS.authorization]: `Bearer ${this.apiKey}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      response,
    });
  }
}

function searchOf(query: Query): string {
  const given = Object.entries(query).flatMap(([name, value]) => value === undefined ? [] : [[name, value]]);
  return given.length > 0 ? `?${new URLSearchParams(given)}` : "";
}

function agentPath(id: string): string {
  return `/v1/admin/agents/${encodeURIComponent(id)}`;
}
