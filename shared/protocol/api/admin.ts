/** Request and response bodies of the admin's routes for people and agents (D-169, D-170, D-171). */
import * as z from "zod";
import { LIMITS } from "../limits.ts";
import { parseReason } from "../names.ts";
import type { Shape } from "../shape.ts";
import { ApiKey } from "./accounts.ts";
import { Agent } from "./agents.ts";
import {
  ActiveOrRevoked,
  AgentDid,
  FrameworkAsSent,
  HumanDid,
  IsoTime,
  PageLimit,
  Pagination,
  parsedText,
  Ulid,
} from "./fields.ts";

const limit = PageLimit.default(LIMITS.adminListDefault);
const cursor = Ulid.optional();
const role = z.enum(["user", "admin"]);
const personStatus = z.enum(["active", "suspended"]);
const sessionStatus = z.enum(["active", "revoked", "expired"]);

/** An account as an admin sees it. */
export interface Person {
  /** ULID of the record. */
  id: string;
  /** DID of the human. */
  did: string;
  /** Name that is shown to other people. */
  displayName: string;
  /** Role of the account. */
  role: "user" | "admin";
  /** Present status; the API keys of a suspended person are refused. */
  status: "active" | "suspended";
  /** Time of creation, ISO 8601. */
  createdAt: string;
  /** Time of the suspension, ISO 8601; `null` while active. */
  suspendedAt: string | null;
}
/** Schema of `Person`. */
export const Person: Shape<Person> = z.object({
  id: Ulid,
  did: HumanDid,
  displayName: z.string(),
  role,
  status: personStatus,
  createdAt: IsoTime,
  suspendedAt: IsoTime.nullable(),
});

/** Query of `GET /v1/admin/people`. */
export interface PeopleQuery {
  /** Only people with this status. */
  status?: "active" | "suspended" | undefined;
  /** Only people with this role. */
  role?: "user" | "admin" | undefined;
  /** Records per page. */
  limit: number;
  /** `nextCursor` of the previous page. */
  cursor?: string | undefined;
}
/** Schema of `PeopleQuery`. */
export const PeopleQuery: Shape<PeopleQuery> = z.object({
  status: personStatus.optional(),
  role: role.optional(),
  limit,
  cursor,
});

/** Response of `GET /v1/admin/people`, newest first. A page with a filter may be short and not be the last (D-215). */
export interface PeopleList {
  /** One page of people. */
  people: Person[];
  /** Position in the list. */
  pagination: Pagination;
}
/** Schema of `PeopleList`. */
export const PeopleList: Shape<PeopleList> = z.object({ people: z.array(Person), pagination: Pagination });

/** Path of `/v1/admin/people/:id` and below. */
export interface PersonPath {
  /** ULID of the record. */
  id: string;
}
/** Schema of `PersonPath`. */
export const PersonPath: Shape<PersonPath> = z.object({ id: Ulid });

/** Response of `GET /v1/admin/people/:id`. */
export interface PersonAnswer {
  /** The account. */
  person: Person;
  /** Its API keys: the active ones first, then newest first, at most 100. */
  apiKeys: ApiKey[];
  /** Number of its agents, counted among the newest 1,000. */
  agents: {
    active: number;
    revoked: number;
  };
  /** Time at which one of its API keys was last used, ISO 8601; `null` before the first use. */
  lastUsedAt: string | null;
}
/** Schema of `PersonAnswer`. */
export const PersonAnswer: Shape<PersonAnswer> = z.object({
  person: Person,
  apiKeys: z.array(ApiKey),
  agents: z.object({ active: z.int(), revoked: z.int() }),
  lastUsedAt: IsoTime.nullable(),
});

/** Body of `POST /v1/admin/people/:id/suspend` and `…/restore`. */
export interface SuspensionBody {
  /** Reason for the audit log, 1 to 200 code points. */
  reason?: string | undefined;
}
/** Schema of `SuspensionBody`. */
export const SuspensionBody: Shape<SuspensionBody> = z.object({
  reason: parsedText(parseReason, `must be 1 to ${LIMITS.reason} characters of text`, LIMITS.reason).optional(),
});

/** Response of `POST /v1/admin/people/:id/suspend` and `…/restore`. */
export interface SuspensionAnswer {
  /** The account after the change. */
  person: Person;
  /** False while the registry is still changing the sessions of the person's agents; it continues by itself. */
  complete: boolean;
}
/** Schema of `SuspensionAnswer`. */
export const SuspensionAnswer: Shape<SuspensionAnswer> = z.object({ person: Person, complete: z.boolean() });

/** Query of `GET /v1/admin/agents`. */
export interface AdminAgentQuery {
  /** Only agents with this status. */
  status?: "active" | "revoked" | undefined;
  /** Only agents with this framework label. */
  framework?: string | undefined;
  /** Only agents of the human with this ULID. */
  ownerId?: string | undefined;
  /** Records per page. */
  limit: number;
  /** `nextCursor` of the previous page. */
  cursor?: string | undefined;
}
/** Schema of `AdminAgentQuery`. */
export const AdminAgentQuery: Shape<AdminAgentQuery> = z.object({
  status: ActiveOrRevoked.optional(),
  framework: FrameworkAsSent.optional(),
  ownerId: Ulid.optional(),
  limit,
  cursor,
});

/** An agent as it is listed for an admin. */
export interface AdminAgentSummary {
  /** ULID of the record. */
  id: string;
  /** DID of the agent. */
  did: string;
  /** Name of the agent. */
  name: string;
  /** Framework label. */
  framework: string;
  /** Present status. */
  status: "active" | "revoked";
  /** DID of the agent's owner. */
  ownerDid: string;
  /** Time at which the current AIT expires, ISO 8601. */
  expires: string;
  /** Time of creation, ISO 8601. */
  createdAt: string;
  /** Status of its session; `null` when its record is no longer kept. */
  session: "active" | "revoked" | "expired" | null;
}
/** Schema of `AdminAgentSummary`. */
export const AdminAgentSummary: Shape<AdminAgentSummary> = z.object({
  id: Ulid,
  did: AgentDid,
  name: z.string(),
  framework: z.string(),
  status: ActiveOrRevoked,
  ownerDid: HumanDid,
  expires: IsoTime,
  createdAt: IsoTime,
  session: sessionStatus.nullable(),
});

/** Response of `GET /v1/admin/agents`, newest first. A page with a filter may be short and not be the last (D-215). */
export interface AdminAgentList {
  /** One page of agents. */
  agents: AdminAgentSummary[];
  /** Position in the list. */
  pagination: Pagination;
}
/** Schema of `AdminAgentList`. */
export const AdminAgentList: Shape<AdminAgentList> = z.object({
  agents: z.array(AdminAgentSummary),
  pagination: Pagination,
});

/** The session of an agent, without its tokens. */
export interface AgentSession {
  /** Present status. */
  status: "active" | "revoked" | "expired";
  /** Time at which the access token expires, ISO 8601. */
  accessExpiresAt: string;
  /** Time at which the refresh token expires, ISO 8601. */
  refreshExpiresAt: string;
  /** Time of the last refresh, ISO 8601; `null` before the first one. */
  refreshedAt: string | null;
}
/** Schema of `AgentSession`. */
export const AgentSession: Shape<AgentSession> = z.object({
  status: sessionStatus,
  accessExpiresAt: IsoTime,
  refreshExpiresAt: IsoTime,
  refreshedAt: IsoTime.nullable(),
});

/** Response of `GET /v1/admin/agents/:id`. */
export interface AdminAgentAnswer {
  /** The agent. */
  agent: Agent;
  /** Its session; `null` when its record is no longer kept. */
  session: AgentSession | null;
}
/** Schema of `AdminAgentAnswer`. */
export const AdminAgentAnswer: Shape<AdminAgentAnswer> = z.object({ agent: Agent, session: AgentSession.nullable() });
