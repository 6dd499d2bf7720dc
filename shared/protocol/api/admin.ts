/**
 * Request and response bodies of the admin's routes for people and agents (D-170). An admin stops an agent by other
 * routes than its owner does, because the audit log could otherwise not tell in which role a person acted.
 */
import * as z from "zod";
import { LIMITS } from "../limits.ts";
import { parseDisplayName, parseReason } from "../names.ts";
import { ApiKey, Human } from "./accounts.ts";
import { Agent, ResolvedAgent } from "./agents.ts";
import {
  ActiveOrRevoked,
  FrameworkAsSent,
  IsoTime,
  PageLimit,
  Pagination,
  parsedText,
  strictQuery,
  Ulid,
} from "./fields.ts";

const limit = PageLimit.default(LIMITS.adminListDefault);
const cursor = Ulid.optional();
const sessionStatus = z.enum(["active", "revoked", "expired", "suspended"]);

export type Person = z.output<typeof Person>;
export const Person = Human.extend({
  createdAt: IsoTime,
  /** `null` while active. */
  suspendedAt: IsoTime.nullable(),
});

export type AdminCounts = z.output<typeof AdminCounts>;
export const AdminCounts = z.object({
  at: IsoTime,
  people: z.object({ active: z.int(), suspended: z.int() }),
  agents: z.object({ active: z.int(), revoked: z.int() }),
  /** Active agents whose identity token has not ended but ends within 7 days. */
  expiring7d: z.int(),
  /** False when there are over 100,000 people or agents, because the others are not counted. */
  complete: z.boolean(),
});

/** The beginning of a name; upper and lower case count as the same. */
const namePrefix = parsedText(parseDisplayName, `must be 1 to ${LIMITS.displayName} characters`, LIMITS.displayName);

export type PeopleQuery = z.output<typeof PeopleQuery>;
export const PeopleQuery = strictQuery({
  name: namePrefix.optional(),
  status: Human.shape.status.optional(),
  role: Human.shape.role.optional(),
  limit,
  cursor,
});

/** Newest first. With a filter, a page may be short although it is not the last. */
export type PeopleList = z.output<typeof PeopleList>;
export const PeopleList = z.object({ people: z.array(Person), pagination: Pagination });

export type PersonAnswer = z.output<typeof PersonAnswer>;
export const PersonAnswer = z.object({
  person: Person,
  /** At most 100: first the active ones, then the others, each newest first. */
  apiKeys: z.array(ApiKey),
  /** Revoked ones are counted among the newest 1,000 agents of the person. */
  agents: z.object({ active: z.int(), revoked: z.int() }),
  /** When one of the person's API keys was last used; `null` before the first use. */
  lastUsedAt: IsoTime.nullable(),
});

export type SuspensionBody = z.output<typeof SuspensionBody>;
export const SuspensionBody = z.object({
  reason: parsedText(parseReason, `must be 1 to ${LIMITS.reason} characters of text`, LIMITS.reason).optional(),
});

export type SuspensionAnswer = z.output<typeof SuspensionAnswer>;
export const SuspensionAnswer = z.object({
  person: Person,
  /** False while the registry is still changing the sessions of the person's agents; it continues by itself. */
  complete: z.boolean(),
});

export type AdminAgentQuery = z.output<typeof AdminAgentQuery>;
export const AdminAgentQuery = strictQuery({
  status: ActiveOrRevoked.optional(),
  framework: FrameworkAsSent.optional(),
  name: namePrefix.optional(),
  ownerId: Ulid.optional(),
  /** Only active agents whose identity token has not ended but ends within this many days. */
  expiringDays: PageLimit.optional(),
  limit,
  cursor,
});

export type AdminAgentSummary = z.output<typeof AdminAgentSummary>;
export const AdminAgentSummary = z.object({
  id: Ulid,
  ...ResolvedAgent.shape,
  ownerName: z.string(),
  expires: IsoTime,
  createdAt: IsoTime,
  /** `null` when the record of the session was deleted. */
  session: sessionStatus.nullable(),
});

/** Newest first. With a filter, a page may be short although it is not the last. */
export type AdminAgentList = z.output<typeof AdminAgentList>;
export const AdminAgentList = z.object({
  agents: z.array(AdminAgentSummary),
  pagination: Pagination,
});

export type AgentSession = z.output<typeof AgentSession>;
export const AgentSession = z.object({
  status: sessionStatus,
  accessExpiresAt: IsoTime,
  refreshExpiresAt: IsoTime,
  /** `null` before the first refresh. */
  refreshedAt: IsoTime.nullable(),
});

export type AdminAgentAnswer = z.output<typeof AdminAgentAnswer>;
export const AdminAgentAnswer = z.object({
  agent: Agent,
  ownerName: z.string(),
  /** `null` when the record of the session was deleted. */
  session: AgentSession.nullable(),
});

export type ConsoleCode = z.output<typeof ConsoleCode>;
export const ConsoleCode = z.object({
  /** Opens the console once, until `expiresAt`. */
  url: z.string(),
  expiresAt: IsoTime,
});
