/** `svc admin agents …`: the agents of all people. */
import { isConfirmed, YES } from "../confirm.ts";
import type { AgentConnection } from "../../../shared/protocol/api/relay_admin.ts";
import { DAY_MS } from "../../../shared/clock.ts";
import { parseIso } from "../../../shared/protocol/time.ts";
import { connectAsAdmin, type ConnectionOptions, connectToRelay } from "../../account/registry_access.ts";
import { ActiveOrRevoked } from "../../../shared/protocol/api/fields.ts";
import type { AdminClient } from "../../client/admin_client.ts";
import { command, PERSON_OPTIONS } from "../../command_line/command.ts";
import { parseDuration } from "../../command_line/numbers.ts";
import type { Context } from "../../context.ts";
import { CliError, EXIT } from "../../errors.ts";
import { fields } from "../../terminal/output.ts";
import { agoText, aheadText } from "../../terminal/times.ts";
import { agentIdOf, hintNextPage, optionWords, PAGE_OPTIONS, personIdOf, readPages } from "./pages.ts";

const AGENT = { summary: "Name, name@person, ID or DID of the agent, from svc admin agents list" } as const;
/** The registry refuses a query for a longer time. */
const EXPIRING_DAYS_MAX = 100;

export const COMMANDS = [
  command({
    path: ["admin", "agents", "list"],
    summary: "List the agents of all people, newest first",
    details: [
      "--online and --offline-for ask the proxy too. --offline-for lists every agent that fits, without pages.",
    ],
    options: {
      ...PERSON_OPTIONS,
      ...PAGE_OPTIONS,
      status: { value: "status", summary: "Only active or revoked agents", complete: ActiveOrRevoked.options },
      framework: { value: "label", summary: "Only agents with this framework label" },
      name: { value: "prefix", summary: "Only agents whose name begins with this, in any case" },
      owner: { value: "person", summary: "Only agents of this person, by name, ID or DID" },
      expiring: { value: "days", summary: "Only active agents whose identity token ends within this time, such as 7d" },
      // Not named `--offline`, which is a switch of `svc verify`. Options are read before the command is known, so a
      // name must take a value in all commands or in none.
      "offline-for": { value: "time", summary: "Only active agents that left longer ago than this, such as 1d" },
      online: { summary: "Show also which agents are connected, as the proxy reports it" },
    },
    examples: {
      "svc admin agents list --status active --all": "Show every agent that may act",
      "svc admin agents list --offline-for 1d": "Show the agents that were not connected for a day",
    },
    async run(ctx, { options }) {
      const { framework, name, "offline-for": offline } = options;
      const offlineMs = offline === undefined ? null : parseDuration(offline, "--offline-for");
      const expiringDays = options.expiring === undefined ? undefined : daysOf(options.expiring);
      const status = options.status ?? (offlineMs === null ? undefined : "active");
      const admin = connectAsAdmin(ctx, options);
      const ownerId = options.owner === undefined ? undefined : await personIdOf(admin, options.owner);
      const query = { status, framework, name, ownerId, expiringDays };
      const listed = { ...options, all: options.all || offlineMs !== null };
      const { rows, pagination } = await readPages(
        listed,
        (page) => admin.agents({ ...query, ...page }),
        (page) => page.agents,
      );
      const connections = options.online || offlineMs !== null ? await connectionsByDid(ctx, options) : null;
      const now = ctx.clock.now();
      const agents = rows.flatMap(({ expires: expiresAt, ...row }) => {
        const agent = { ...row, expiresAt };
        if (connections === null) return [agent];
        const connection = connections.get(agent.did) ?? null;
        const isListed = offlineMs === null || (connection !== null && offlineFor(connection, now) > offlineMs);
        return isListed ? [{ ...agent, connection }] : [];
      });
      // The proxy forgets when a revoked agent was connected, so "never" would be false.
      const seen = ({ did, status }: typeof agents[number]) =>
        status === "revoked" ? null : lastSeen(connections?.get(did), now);
      ctx.out.list({ agents, pagination }, agents, "No agents here.", [
        { head: "NAME", of: ({ name }) => name },
        { head: "OWNER", rank: 1, of: ({ ownerName }) => ownerName },
        {
          head: "STATE",
          rank: 1,
          of: ({ status, session }) =>
            status === "active" && session !== "active" ? `session ${session ?? "ended"}` : status,
        },
        ...connections === null ? [] : [{ head: "LAST SEEN", rank: 2, of: seen }],
        {
          head: "TOKEN ENDS",
          rank: 3,
          of: ({ status, expiresAt }) => status === "revoked" ? null : endText(expiresAt, now),
        },
        { head: "ID", isWide: true, of: ({ id }) => id },
      ]);
      const words = optionWords({ status, framework, name, owner: ownerId, expiring: options.expiring });
      if (options.online) words.push("--online");
      hintNextPage(ctx, ["admin", "agents", "list", ...words], options, pagination);
    },
  }),
  command({
    path: ["admin", "agents", "show"],
    summary: "Show any agent, with its session",
    args: { agent: AGENT },
    options: PERSON_OPTIONS,
    examples: { "svc admin agents show 01KHYQ5H00AAAAAAAAAAAAAAAA": "Show one agent" },
    async run(ctx, { args, options }) {
      const admin = connectAsAdmin(ctx, options);
      const { agent, ownerName, session } = await admin.agent(await agentIdOf(admin, args.agent));
      ctx.out.result({ agent, ownerName, session }, [
        ctx.out.bold(agent.name),
        ...fields([
          ["id", agent.id],
          ["agent", agent.did],
          ["owner", `${ownerName} (${agent.ownerDid})`],
          ["framework", agent.framework],
          ["status", agent.status],
          ["token expires", agent.expiresAt],
          ["created", agent.createdAt],
          ["updated", agent.updatedAt],
          ["session", session === null ? "no longer kept" : session.status],
          ["access until", session?.accessExpiresAt],
          ["refresh until", session?.refreshExpiresAt],
          ["refreshed", session?.refreshedAt],
        ]),
      ]);
    },
  }),
  command({
    path: ["admin", "agents", "revoke"],
    summary: "Revoke agents permanently",
    details: ["Their identity tokens are added to the revocation list at once. This cannot be undone."],
    args: { agent: { ...AGENT, repeat: true } },
    options: { ...PERSON_OPTIONS, yes: YES },
    examples: { "svc admin agents revoke 01KHYQ5H00AAAAAAAAAAAAAAAA": "Stop an agent everywhere" },
    run: (ctx, { args, options }) =>
      changeAgents(ctx, args.agent, options, {
        question: (names) => `Revoke ${names} permanently? This cannot be undone.`,
        change: (admin, id) => admin.deleteAgent(id),
        result: { status: "revoked" },
        done: (name) => `The agent ${name} is revoked permanently.`,
      }),
  }),
  command({
    path: ["admin", "agents", "end-session"],
    summary: "End the sessions of agents; the agents stay active",
    details: ["Their owners can give them new sessions with svc agent reissue."],
    args: { agent: { ...AGENT, repeat: true } },
    options: { ...PERSON_OPTIONS, yes: YES },
    examples: { "svc admin agents end-session 01KHYQ5H00AAAAAAAAAAAAAAAA": "Disconnect an agent" },
    run: (ctx, { args, options }) =>
      changeAgents(ctx, args.agent, options, {
        question: args.agent.length === 1 ? null : (names) => `End the sessions of ${names}?`,
        change: (admin, id) => admin.endSession(id),
        result: { session: "revoked" },
        done: (name) => `The agent ${name} has no session now.`,
      }),
  }),
];

interface AgentChange {
  /** The question before the change; `null` if the command asks nothing. */
  question: ((names: string) => string) | null;
  change(admin: AdminClient, id: string): Promise<unknown>;
  result: Record<string, string>;
  done(name: string): string;
}

/**
 * Asks one question for all agents. The first failure ends the command, after a warning that names the changed ones.
 */
async function changeAgents(
  ctx: Context,
  names: readonly string[],
  options: ConnectionOptions & { yes: boolean },
  { question, change, result, done }: AgentChange,
): Promise<number | void> {
  const admin = connectAsAdmin(ctx, options);
  const ids = new Map<string, string>();
  for (const name of names) ids.set(await agentIdOf(admin, name), name);
  const what = [...ids].map(([id, name]) => name === id ? id : `${name} (${id})`);
  if (question !== null && !await isConfirmed(ctx, options.yes, question(what.join(", ")))) return EXIT.failed;
  const changed: { id: string }[] = [];
  try {
    for (const id of ids.keys()) {
      ctx.out.doing(`Changing ${id}`);
      await change(admin, id);
      changed.push({ id, ...result });
    }
  } catch (error) {
    if (changed.length > 0) ctx.out.warn(`Done before the failure: ${changed.map(({ id }) => id).join(", ")}`);
    throw error;
  }
  ctx.out.result({ agents: changed }, what.map(done));
}

/** The value of `--expiring` as a number of days, which is what the registry takes. @throws {CliError} `CLI_USAGE` */
function daysOf(text: string): string {
  const days = parseDuration(text, "--expiring") / DAY_MS;
  if (Number.isInteger(days) && days <= EXPIRING_DAYS_MAX) return String(days);
  throw new CliError("CLI_USAGE", `--expiring must be 1d to ${EXPIRING_DAYS_MAX}d`);
}

/** Reads every page of the proxy's list of connections. Returns each agent's connection by the agent's DID. */
async function connectionsByDid(ctx: Context, options: ConnectionOptions): Promise<Map<string, AgentConnection>> {
  const relay = await connectToRelay(ctx, options);
  const { rows } = await readPages({ all: true }, relay.connections, (page) => page.connections);
  return new Map(rows.map((one) => [one.agentDid, one]));
}

/** Milliseconds since an agent left, or since it connected if no time of leaving is known; 0 while it is connected. */
function offlineFor({ online, connectedAt, disconnectedAt }: AgentConnection, now: number): number {
  return online ? 0 : now - (parseIso(disconnectedAt ?? connectedAt) ?? now);
}

function lastSeen(connection: AgentConnection | undefined, now: number): string {
  if (connection === undefined) return "never";
  return connection.online ? "online" : agoText(offlineFor(connection, now));
}

function endText(expires: string, now: number): string {
  const left = (parseIso(expires) ?? now) - now;
  return left <= 0 ? "ended" : aheadText(left);
}
