/** `svc agent …`: agents, and their identity tokens and sessions. */
import { ActiveOrRevoked } from "../../shared/protocol/api/fields.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { DEFAULT_FRAMEWORK, parseFramework } from "../../shared/protocol/names.ts";
import { command, PERSON_OPTIONS, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { parseCount } from "../command_line/numbers.ts";
import { readConfig, updateConfig } from "../account/config_store.ts";
import { connect, connectAsPerson, registryWords } from "../account/registry_access.ts";
import { CliError, EXIT } from "../errors.ts";
import { IN_A_CODING_AGENT } from "../hosts/table.ts";
import { type AgentState, PAGES_MAX, pagesOf, type RegistryClient } from "../client/registry_client.ts";
import { fields } from "../terminal/output.ts";
import { idCell } from "../terminal/tables.ts";
import { type AgentFolder, AgentStore, findAgent, requireAgentName } from "../agents/agent_store.ts";
import { createAgent } from "../agents/registration.ts";
import {
  deleteAgent,
  explainEnd,
  refreshAgent,
  reissueAgent,
  sessionOf,
  type SessionState,
} from "../agents/lifecycle.ts";
import { parseAit } from "../../shared/protocol/signed/ait.ts";
import { TokenError } from "../../shared/protocol/signed/jws.ts";
import { toIso, unixSeconds } from "../../shared/protocol/time.ts";
import type { Context } from "../context.ts";
import { ApiError, UnreachableError } from "../../shared/client/errors.ts";
import { isConfirmed, YES } from "./confirm.ts";
import { countUnread } from "../connector/runtime/runtime_file.ts";
import { trustedKeys } from "../verify/trusted_keys.ts";
import { evaluateToken } from "../verify/evaluate.ts";

const { aitTtlDaysMax: TTL_DAYS_MAX } = LIMITS;
const STATUSES = ActiveOrRevoked.options;
const HERE = { summary: "Agent name on this machine", complete: "agents" } as const;
const ANY_AGENT = {
  summary: "Agent name on this machine, agent ID, its last 6 characters from svc agent list, or DID",
  complete: "agents",
  orId: true,
} as const;

const SESSION_IS = {
  active: () => "active",
  revoked: (name: string) => `REVOKED: run svc agent reissue ${name} to start a new one`,
  interrupted: (name: string) => `interrupted: run svc agent auth refresh ${name}, or reissue, to get its tokens`,
  unknown: () => "unknown",
} satisfies Record<SessionState | "unknown", unknown>;

/** Said of a deleted agent, because a reissue would be refused. */
const endedForGood = (name: string) =>
  `ENDED with the agent: run svc agent delete ${name}, then svc agent create ${name}`;

export const COMMANDS = [
  command({
    path: ["agent", "create"],
    summary: "Create an agent: generate a key, register it, save its files",
    details: ["The private key never leaves this machine. Run the same command again to resume after an interruption."],
    args: { name: { summary: "Agent name: 1 to 64 of A-Z, a-z, 0-9, ., _ and -; also its folder name" } },
    options: {
      ...PERSON_OPTIONS,
      framework: {
        value: "framework",
        summary: `Framework label, up to ${LIMITS.framework} characters (default ${DEFAULT_FRAMEWORK})`,
      },
      "ttl-days": { value: "days", summary: `Days until the identity token expires, from 1 to ${TTL_DAYS_MAX}` },
    },
    examples: { "svc agent create alpha --framework openclaw": "Create an agent named alpha" },
    async run(ctx, { args: { name }, options }) {
      const { framework } = options;
      if (framework !== undefined && parseFramework(framework) === null) {
        throw new CliError("CLI_USAGE", `--framework must be 1 to ${LIMITS.framework} characters of text`);
      }
      const days = options["ttl-days"];
      const ttlDays = days === undefined ? undefined : parseCount(days, "--ttl-days", TTL_DAYS_MAX);
      requireAgentName(name);
      const owner = connectAsPerson(ctx, options);
      const { apiKey, humanName } = readConfig(ctx) ?? {};
      // A second machine has only the API key of its person, and peers would read there that the agent is of someone.
      if (apiKey === owner.apiKey && humanName === undefined) {
        const { human } = await owner.registry.me(apiKey);
        await updateConfig(ctx, { humanName: human.displayName });
      }
      const { identity, path, resumed } = await createAgent(ctx, owner, { name, framework, ttlDays });
      ctx.out.result({ ...identity, path, resumed }, [
        ctx.out.bold(`The agent ${name} is ready${resumed ? "; it resumed an earlier run" : ""}.`),
        ...fields([
          ["did", ctx.out.showsIds ? identity.did : undefined],
          ["framework", identity.framework],
          ["owner", ctx.out.showsIds ? identity.ownerDid : undefined],
          ["expires", ctx.out.shown(ctx.out.time(identity.expiresAt))],
          ["files", path],
        ]),
      ]);
      const here = ctx.allowInsecure ? ["--allow-insecure"] : [];
      ctx.out.next(["connector", "start", name, ...here]);
      ctx.out.next(["mcp", "install", name, "--for", "claude-code"], { when: IN_A_CODING_AGENT });
      ctx.out.next(["agent", "inspect", name, ...here], { when: "to check it" });
    },
  }),
  command({
    path: ["agent", "list"],
    summary: "List your agents, newest first, and mark those on this machine",
    options: {
      ...PERSON_OPTIONS,
      status: { value: "status", summary: "Only agents with this status: active or revoked", complete: STATUSES },
      framework: { value: "framework", summary: "Only agents of this framework" },
      limit: { value: "count", summary: "Show one page of this size, 1 to 100 (default: all agents)" },
      cursor: { value: "cursor", summary: "Cursor of the next page, from the previous output" },
    },
    examples: { "svc agent list --status active": "Active agents only" },
    async run(ctx, { options }) {
      const { status, framework, limit, cursor } = options;
      if (status !== undefined && !STATUSES.some((known) => known === status)) {
        throw new CliError("CLI_USAGE", `--status must be ${STATUSES.join(" or ")}, not "${status}"`);
      }
      if (limit !== undefined) parseCount(limit, "--limit", LIMITS.agentListMax);
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const isAll = limit === undefined && cursor === undefined;
      const query = { status, framework, limit: isAll ? LIMITS.agentListMax : limit };
      const read = (cursor?: string) => registry.agents(apiKey, { ...query, cursor });
      const pages = isAll ? await Array.fromAsync(pagesOf(read, undefined, PAGES_MAX)) : [await read(cursor)];
      const agents = pages.flatMap((page) => page.agents), pagination = pages.at(-1)?.pagination;
      const store = new AgentStore(ctx), dids = await store.each((folder) => folder.identity().did);
      const here = new Map([...dids].map(([name, did]) => [did, name]));
      const listed = agents.map(({ expires, ...agent }) => {
        return { ...agent, expiresAt: expires, localName: here.get(agent.did) ?? null };
      });
      ctx.out.list({ agents: listed, pagination }, listed, "No agents.", [
        { head: "NAME", of: ({ name }) => name },
        { head: "ID", rank: 3, of: ({ id }) => idCell(id) },
        { head: "STATUS", rank: 1, of: ({ status }) => status },
        {
          head: "EXPIRES",
          rank: 2,
          of: ({ status, expiresAt }) => status === "revoked" ? null : ctx.out.time(expiresAt),
        },
        { head: "HERE AS", rank: 2, of: ({ localName }) => localName },
      ]);
      if (pagination && pagination.nextCursor !== null) {
        const given = Object.entries({ status, framework, limit, cursor: pagination.nextCursor });
        const words = given.flatMap(([name, value]) => value === undefined ? [] : [`--${name}=${value}`]);
        ctx.out.next(["agent", "list", ...words, ...registryWords(ctx, options)], { when: "for more" });
      }
      for (const name of (await store.names()).pending) {
        ctx.out.next(["agent", "create", name], { when: `to resume the creation of ${name}` });
      }
    },
  }),
  command({
    path: ["agent", "inspect"],
    summary: "Show a local agent's identity, tokens and state; verify its identity token",
    args: { name: HERE },
    options: REGISTRY_OPTIONS,
    examples: { "svc agent inspect alpha": "Show the identity of alpha and when it expires" },
    async run(ctx, { args: { name }, options }) {
      const folder = await new AgentStore(ctx).open(name);
      const { registry } = connect(ctx, options, folder.identity().registryUrl);
      const { facts, error } = await inspectAgent(ctx, folder, registry);
      ctx.out.result({ ...facts }, [
        ctx.out.bold(`The agent ${name}`),
        ...fields([
          ["did", facts.did],
          ["name", facts.name],
          ["framework", facts.framework],
          ["owner", facts.ownerDid],
          ["status", facts.status],
          ["token id", facts.aitJti],
          ["token", facts.verified ? "verified" : `NOT VERIFIED: ${facts.problem}`],
          ["issued", facts.issuedAt],
          ["expires", facts.expiresAt],
          ["key id", facts.kid],
          ["session", facts.status === "revoked" ? endedForGood(name) : SESSION_IS[facts.session](name)],
          ["access until", facts.session === "revoked" ? undefined : facts.accessExpiresAt],
          ["refresh until", facts.session === "revoked" ? undefined : facts.refreshExpiresAt],
          ["registry", facts.registryUrl],
        ]),
      ]);
      if (error !== null) throw error;
    },
  }),
  command({
    path: ["agent", "delete"],
    summary: "Revoke an agent permanently and delete its local files",
    details: [
      "The identity token is added to the revocation list at once. Name an agent of another machine by its ID.",
    ],
    args: { agent: ANY_AGENT },
    options: { ...PERSON_OPTIONS, yes: YES },
    examples: { "svc agent delete alpha": "alpha is revoked and its files are deleted" },
    async run(ctx, { args: { agent }, options }) {
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const found = await findAgent(ctx, agent, () => registry.ownAgents(apiKey));
      const note = options.yes ? "" : await unreadNote(ctx, found.localName);
      const question = `Revoke ${found.shown} permanently?${note} This cannot be undone.`;
      if (!await isConfirmed(ctx, options.yes, question)) return EXIT.failed;
      ctx.out.doing(`Revoking ${found.shown}`);
      // Loaded only here, because it needs the parsers for files of hosts, and the other commands would wait for them.
      const { removeOfAgent } = await import("./uninstall.ts");
      const changed: string[] = [];
      const before = await deleteAgent(ctx, { registry, apiKey }, found, async (folder) => {
        changed.push(...await removeOfAgent(ctx, folder));
      });
      const { id, localName, shown } = found;
      const files = localName === null ? "" : " Its local files are deleted.";
      ctx.out.result({ id, localName, status: before === "unknown" ? before : "revoked" }, [
        `${DELETED[before].replace("%", shown)}${files}`,
        ...changed.map((path) => `What svc wrote for it is removed from ${path}.`),
      ]);
    },
  }),
  command({
    path: ["agent", "reissue"],
    summary: "Issue a new identity token for an agent; the previous one is revoked",
    details: ["An agent without an active session also gets a new session."],
    args: { name: HERE },
    options: PERSON_OPTIONS,
    examples: { "svc agent reissue alpha": "Replace the token before it expires, or after the session ended" },
    async run(ctx, { args: { name }, options }) {
      const owner = connectAsPerson(ctx, options);
      ctx.out.doing(`Reissuing the token of ${name}`);
      const { identity, newSession } = await reissueAgent(ctx, owner, name);
      const { did, expiresAt } = identity;
      ctx.out.result({ name, did, expiresAt, newSession }, [
        `${name} has a new identity token${newSession ? " and a new session" : ""}; the previous token is revoked.`,
        ...fields([["expires", ctx.out.shown(ctx.out.time(expiresAt))]]),
      ]);
      if (newSession) ctx.out.next(["connector", "start", name], { when: "if its connector has stopped" });
    },
  }),
  command({
    path: ["agent", "auth", "refresh"],
    summary: "Refresh the tokens of an agent's session",
    details: [
      "Safe to run at any time and in several processes: one sends the request, the others use its result. If an answer",
      "is lost, the next run recovers the session.",
    ],
    args: { name: HERE },
    options: REGISTRY_OPTIONS,
    examples: { "svc agent auth refresh alpha": "Get new tokens, and show until when they are valid" },
    async run(ctx, { args: { name }, options }) {
      const registryOf = (url: string) => connect(ctx, options, url).registry;
      const { auth, how } = await refreshAgent(ctx, name, registryOf).catch(async (error) => {
        const { did, registryUrl } = (await new AgentStore(ctx).open(name)).identity();
        throw await explainEnd(error, name, () => registryOf(registryUrl).stateOf(did));
      });
      const { accessExpiresAt, refreshExpiresAt } = auth;
      const what =
        { refreshed: "has new tokens", recovered: "has recovered its session", shared: "was just refreshed" }[how];
      ctx.out.result({ name, how, accessExpiresAt, refreshExpiresAt }, [
        `${name} ${what}.`,
        ...fields([["access until", accessExpiresAt], ["refresh until", refreshExpiresAt]]),
      ]);
    },
  }),
  command({
    path: ["agent", "auth", "revoke"],
    summary: "End an agent's session; its identity stays valid",
    args: { agent: ANY_AGENT },
    options: PERSON_OPTIONS,
    examples: { "svc agent auth revoke alpha": "Its access and refresh tokens stop working" },
    async run(ctx, { args: { agent }, options }) {
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const { id, localName, shown } = await findAgent(ctx, agent, () => registry.ownAgents(apiKey));
      await registry.revokeAgentAuth(apiKey, id);
      ctx.out.result({ id, localName, session: "revoked" }, `The session of ${shown} has ended.`);
      if (localName === null) return;
      // A reissue of a deleted agent would be refused.
      const isDeleted = await registry.stateOf(id).catch(() => "unknown") === "revoked";
      if (isDeleted) ctx.out.next(["agent", "delete", localName], { when: "because the agent was deleted" });
      else ctx.out.next(["agent", "reissue", localName], { when: "for a new session" });
    },
  }),
];

/** Says how many unread messages a deletion would delete; empty when there are none, or when they cannot be read. */
async function unreadNote(ctx: Context, localName: string | null): Promise<string> {
  const folder = localName === null ? null : await new AgentStore(ctx).open(localName).catch(() => null);
  const unread = folder === null ? 0 : await countUnread(folder).catch(() => 0);
  return unread === 0 ? "" : ` Its unread messages on this machine are deleted too: ${unread}.`;
}

const DELETED: Readonly<Record<AgentState, string>> = {
  active: "The agent % is revoked permanently.",
  revoked: "The agent % is revoked (it was revoked before).",
  unknown: "The registry has no agent % any longer.",
};

/**
 * Returns the facts about an agent. A fact that could not be determined is `null` or `unknown`. `error` says why its
 * token is invalid or could not be verified.
 */
async function inspectAgent(ctx: Context, folder: AgentFolder, registry: RegistryClient) {
  const identity = folder.identity(), auth = folder.auth(), ait = folder.ait(), keys = await folder.keys();
  ctx.out.doing(`Calling ${registry.registryUrl}`);
  // The status comes from the public route, so that inspecting needs no API key.
  const why = new Set<string>();
  // For a fact that a registry refused to tell, or did not answer about.
  const unknown = (error: unknown) => {
    if (!(error instanceof ApiError || error instanceof UnreachableError)) throw error;
    why.add(error.message);
    return "unknown" as const;
  };
  const [judged, status] = await Promise.all([
    judge(ctx, registry, ait),
    registry.stateOf(identity.did).catch(unknown),
  ]);
  const { claims } = judged;
  const session = claims === null ? "unknown" : await sessionOf(registry, folder).catch(unknown);
  for (const text of why) ctx.out.warn(text);
  const mismatch = claims && claims.cnf.jwk.x !== keys.publicKey
    ? "its key is not that of secret.key"
    : claims && claims.sub !== identity.did
    ? "its subject is not the agent of identity.json"
    : null;
  const refused = judged.refused ?? mismatch;
  const error = judged.unreachable ?? (refused === null ? null : new CliError("CLI_TOKEN_REFUSED", refused));
  const facts = {
    did: identity.did,
    name: identity.name,
    framework: claims?.framework ?? identity.framework,
    ownerDid: claims?.ownerDid ?? identity.ownerDid,
    status,
    session,
    aitJti: claims?.jti ?? null,
    issuedAt: claims ? toIso(claims.iat * 1000) : null,
    expiresAt: claims ? toIso(claims.exp * 1000) : identity.expiresAt,
    kid: kidOf(ait),
    accessExpiresAt: auth.accessExpiresAt,
    refreshExpiresAt: auth.refreshExpiresAt,
    registryUrl: identity.registryUrl,
    verified: error === null,
    problem: error?.message ?? null,
  };
  return { facts, error };
}

async function judge(ctx: Context, registry: RegistryClient, ait: string) {
  try {
    const { checks, claims } = await evaluateToken(ait, {
      trusted: await trustedKeys(ctx, registry),
      crl: "the registry reports the status",
      nowSeconds: unixSeconds(ctx.clock.now()),
    });
    const bad = checks.find(({ result }) => result === "failed");
    return { claims, refused: bad ? `${bad.name}: ${bad.detail}` : null, unreachable: null };
  } catch (error) {
    if (!(error instanceof UnreachableError)) throw error;
    return { claims: null, refused: null, unreachable: error };
  }
}

function kidOf(ait: string): string | null {
  try {
    return parseAit(ait).kid;
  } catch (error) {
    if (error instanceof TokenError) return null;
    throw error;
  }
}
