/** `svc agent …`: create, list, inspect and delete agents. agent_tokens.ts has the commands for their tokens. */
import type { AgentList } from "../../shared/protocol/api/agents.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseFramework } from "../../shared/protocol/names.ts";
import { command, PERSON_OPTIONS, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { parseCount } from "../command_line/numbers.ts";
import { connect, connectAsPerson } from "../account/registry_access.ts";
import { CliError, EXIT } from "../errors.ts";
import type { StateBefore } from "../agents/lifecycle.ts";
import { IN_A_CODING_AGENT } from "../hosts/host_ids.ts";
import { fields } from "../terminal/output.ts";
import { idCell, timeCell } from "../terminal/tables.ts";

/** Maximum pages of one listing: 10,000 agents. */
const MAX_PAGES = 100;
const TTL_RANGE = `from ${LIMITS.aitTtlDaysMin} to ${LIMITS.aitTtlDaysMax}`;
const STATUSES = ["active", "revoked"] as const;
const HERE = { summary: "Agent name on this machine", complete: "agents" } as const;

const SESSION_IS = {
  active: () => "active",
  revoked: (name: string) => `REVOKED: run svc agent reissue ${name} to start a new one`,
  interrupted: (name: string) => `interrupted: run svc agent auth refresh ${name}, or reissue, to get its tokens`,
  unknown: () => "unknown",
};

export const COMMANDS = [
  command({
    path: ["agent", "create"],
    summary: "Create an agent: generate a key, register it, save its files",
    details: ["The private key never leaves this machine. Run the same command again to resume after an interruption."],
    args: { name: { summary: "Agent name: 1 to 64 of A-Z, a-z, 0-9, ., _ and -; also its folder name" } },
    options: {
      ...PERSON_OPTIONS,
      framework: { value: "framework", summary: "Framework label, up to 32 characters (default generic)" },
      "ttl-days": { value: "days", summary: `Days until the identity token expires, ${TTL_RANGE}` },
    },
    examples: { "svc agent create alpha --framework openclaw": "Create an agent named alpha" },
    async run(ctx, { args: { name }, options }) {
      const { framework } = options;
      if (framework !== undefined && parseFramework(framework) === null) {
        throw new CliError("CLI_USAGE", "--framework must be 1 to 32 characters of text");
      }
      const ttlDays = options["ttl-days"] === undefined ? undefined : parseTtlDays(options["ttl-days"]);
      const [{ requireAgentName }, { createAgent }] = await Promise.all([
        import("../agents/agent_name.ts"),
        import("../agents/registration.ts"),
      ]);
      requireAgentName(name);
      const owner = connectAsPerson(ctx, options);
      const { identity, path, resumed } = await createAgent(ctx, owner, { name, framework, ttlDays });
      ctx.out.result({ ...identity, path, resumed }, [
        ctx.out.bold(`The agent ${name} is ready${resumed ? "; it resumed an earlier run" : ""}.`),
        ...fields([
          ["did", identity.did],
          ["framework", identity.framework],
          ["owner", identity.ownerDid],
          ["expires", identity.expiresAt],
          ["files", path],
        ]),
      ]);
      const here = options["allow-insecure"] ? ["--allow-insecure"] : [];
      ctx.out.next(["connector", "start", name, ...here], { when: "with an agent runtime" });
      ctx.out.next(["connector", "start", name, "--inbox", ...here], { when: "to read its messages with svc inbox" });
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
      const query = { status, framework, limit, cursor };
      const { agents, pagination } = limit === undefined && cursor === undefined
        ? await everyPage((cursor) => registry.agents(apiKey, { ...query, limit: `${LIMITS.agentListMax}`, cursor }))
        : await registry.agents(apiKey, query);
      const { AgentStore } = await import("../agents/agent_store.ts");
      const store = new AgentStore(ctx);
      const here = await store.namesByDid();
      const listed = agents.map((agent) => ({ ...agent, localName: here.get(agent.did) ?? null }));
      const now = ctx.clock.now();
      ctx.out.result(
        { agents: listed, pagination },
        agents.length === 0 ? "No agents." : ctx.out.table([
          { head: "NAME", of: ({ name }) => name },
          { head: "ID", rank: 3, of: ({ id }) => idCell(id) },
          { head: "STATUS", rank: 1, of: ({ status }) => status },
          { head: "EXPIRES", rank: 2, of: ({ expires }) => timeCell(expires, now) },
          { head: "HERE AS", rank: 2, of: ({ localName }) => localName },
        ], listed),
      );
      if (pagination.nextCursor !== null) {
        const given = Object.entries({ status, framework, limit, cursor: pagination.nextCursor });
        const words = given.flatMap(([name, value]) => value === undefined ? [] : [`--${name}=${value}`]);
        ctx.out.next(["agent", "list", ...words], { when: "for more" });
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
      const [{ AgentStore }, { inspectAgent }] = await Promise.all([
        import("../agents/agent_store.ts"),
        import("../agents/inspection.ts"),
      ]);
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
          ["session", SESSION_IS[facts.session](name)],
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
    args: { agent: { summary: "Agent name on this machine, agent ID or DID", complete: "agents", orId: true } },
    options: { ...PERSON_OPTIONS, yes: { summary: "Do not ask for confirmation" } },
    examples: { "svc agent delete alpha": "alpha is revoked and its files are deleted" },
    async run(ctx, { args: { agent }, options }) {
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const [{ findAgent }, { deleteAgent }] = await Promise.all([
        import("../agents/agent_reference.ts"),
        import("../agents/lifecycle.ts"),
      ]);
      const found = await findAgent(ctx, agent);
      if (!options.yes && !ctx.out.json && ctx.confirm !== null) {
        ctx.out.finish();
        if (!await ctx.confirm(`Revoke ${agent} permanently? This cannot be undone.`)) {
          ctx.out.note("Cancelled. Nothing was deleted.");
          return EXIT.failed;
        }
      }
      ctx.out.doing(`Revoking ${agent}`);
      const before = await deleteAgent(ctx, { registry, apiKey }, found);
      const { id, localName } = found;
      const files = localName === null ? "" : " Its local files are deleted.";
      ctx.out.result(
        { id, localName, status: before === "unknown" ? before : "revoked" },
        `${DELETED[before].replace("%", agent)}${files}`,
      );
    },
  }),
];

const DELETED: Readonly<Record<StateBefore, string>> = {
  active: "The agent % is revoked permanently.",
  revoked: "The agent % is revoked (it was revoked before).",
  unknown: "The registry has no agent % any longer.",
};

/** Reads up to `MAX_PAGES` pages. The cursor of the result is that of the last page. */
async function everyPage(read: (cursor: string | undefined) => Promise<AgentList>): Promise<AgentList> {
  const agents: AgentList["agents"] = [];
  for (let pages = 1, cursor: string | undefined;; pages++) {
    const page = await read(cursor);
    agents.push(...page.agents);
    cursor = page.pagination.nextCursor ?? undefined;
    if (cursor === undefined || pages === MAX_PAGES) return { agents, pagination: page.pagination };
  }
}

function parseTtlDays(text: string): number {
  const days = /^[1-9]\d*$/.test(text) ? Number(text) : NaN;
  if (days >= LIMITS.aitTtlDaysMin && days <= LIMITS.aitTtlDaysMax) return days;
  throw new CliError("CLI_USAGE", `--ttl-days must be an integer ${TTL_RANGE}, not "${text}"`);
}
