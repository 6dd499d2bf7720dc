/** Commands on agents as a whole: make, list, look at, delete. */
import type { AgentList } from "../../shared/protocol/api/agents.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseFramework } from "../../shared/protocol/names.ts";
import { command, PERSON_OPTIONS, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { connect, connectAsPerson } from "../account/registry_access.ts";
import { CliError, EXIT } from "../errors.ts";
import { fields, table } from "../terminal/output.ts";

/** Pages of one listing: 10,000 agents. */
const MAX_PAGES = 100;
const TTL_RANGE = `from ${LIMITS.aitTtlDaysMin} to ${LIMITS.aitTtlDaysMax}`;
const STATUSES = ["active", "revoked"] as const;
const HERE = { summary: "Its name on this machine", complete: "agents" } as const;

const SESSION_IS = {
  active: () => "active",
  revoked: (name: string) => `REVOKED: svc agent reissue ${name} starts a new one`,
  interrupted: (name: string) => `interrupted: svc agent auth refresh ${name}, or reissue, gets its tokens`,
  unknown: () => "unknown",
};

export const AGENT_COMMANDS = [
  command({
    path: ["agent", "create"],
    summary: "Make an agent: a key of its own, registered, its files on this machine",
    details: ["The private key never leaves this machine. If it is interrupted, the same command goes on from there."],
    args: { name: { summary: "1 to 64 of A-Z, a-z, 0-9, ., _ and -; also the name of its folder" } },
    options: {
      ...PERSON_OPTIONS,
      framework: { value: "framework", summary: "What it runs on, up to 32 characters; generic unless given" },
      "ttl-days": { value: "days", summary: `Days until its identity token expires, ${TTL_RANGE}` },
    },
    examples: [{ run: "svc agent create alpha --framework openclaw", purpose: "An agent named alpha" }],
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
      const owner = await connectAsPerson(ctx, options);
      const { identity, path, resumed } = await createAgent(ctx, owner, { name, framework, ttlDays });
      ctx.out.result({ ...identity, path, resumed }, [
        ctx.out.bold(`The agent ${name} is ready${resumed ? "; an earlier run had begun it" : ""}.`),
        ...fields([
          ["did", identity.did],
          ["framework", identity.framework],
          ["owner", identity.ownerDid],
          ["expires", identity.expiresAt],
          ["files", path],
        ]),
      ]);
      ctx.out.next(["agent", "inspect", name]);
    },
  }),
  command({
    path: ["agent", "list"],
    summary: "List your agents, newest first, and which of them are on this machine",
    args: {},
    options: {
      ...PERSON_OPTIONS,
      status: { value: "status", summary: "active or revoked only", complete: STATUSES },
      framework: { value: "framework", summary: "Of that framework only" },
      limit: { value: "count", summary: "One page of so many, 1 to 100; every page unless given" },
      cursor: { value: "cursor", summary: "One page, after an earlier one" },
    },
    examples: [{ run: "svc agent list --status active", purpose: "Those that work" }],
    async run(ctx, { options }) {
      const { status, framework, limit, cursor } = options;
      if (status !== undefined && !STATUSES.some((known) => known === status)) {
        throw new CliError("CLI_USAGE", `--status must be ${STATUSES.join(" or ")}, not "${status}"`);
      }
      if (limit !== undefined && !/^(?:[1-9]\d?|100)$/.test(limit)) {
        throw new CliError("CLI_USAGE", `--limit must be a whole number from 1 to 100, not "${limit}"`);
      }
      const { registry, apiKey } = await connectAsPerson(ctx, options);
      const query = { status, framework, limit, cursor };
      const { agents, pagination } = limit === undefined && cursor === undefined
        ? await everyPage((cursor) => registry.agents(apiKey, { ...query, limit: `${LIMITS.agentListMax}`, cursor }))
        : await registry.agents(apiKey, query);
      const { AgentStore } = await import("../agents/agent_store.ts");
      const store = new AgentStore(ctx);
      const here = await store.namesByDid();
      const listed = agents.map((agent) => ({ ...agent, localName: here.get(agent.did) ?? null }));
      const rows = listed.map(({ name, id, status, expires, localName }) => [name, id, status, expires, localName]);
      ctx.out.result(
        { agents: listed, pagination },
        agents.length === 0 ? "No agents." : table(["NAME", "ID", "STATUS", "EXPIRES", "HERE AS"], rows),
      );
      if (pagination.nextCursor !== null) {
        const given = Object.entries({ status, framework, limit, cursor: pagination.nextCursor });
        const words = given.flatMap(([name, value]) => value === undefined ? [] : [`--${name}=${value}`]);
        ctx.out.next(["agent", "list", ...words], { when: "for more" });
      }
      for (const name of (await store.names()).pending) {
        ctx.out.next(["agent", "create", name], { when: `to go on with ${name}, which is not complete` });
      }
    },
  }),
  command({
    path: ["agent", "inspect"],
    summary: "Show an agent of this machine: identity, tokens, state; its identity token is verified",
    args: { name: HERE },
    options: REGISTRY_OPTIONS,
    examples: [{ run: "svc agent inspect alpha", purpose: "Who alpha is, and until when" }],
    async run(ctx, { args: { name }, options }) {
      const [{ AgentStore }, { inspectAgent }] = await Promise.all([
        import("../agents/agent_store.ts"),
        import("../agents/inspection.ts"),
      ]);
      const folder = await new AgentStore(ctx).open(name);
      const { registry } = await connect(ctx, options, folder.identity().registryUrl);
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
    summary: "Revoke an agent for good, and take its files off this machine",
    details: ["Its identity token is on the revocation list at once. An agent of another machine is named by its id."],
    args: { agent: { summary: "Its name on this machine, or its id or DID", complete: "agents", orId: true } },
    options: { ...PERSON_OPTIONS, yes: { summary: "Do not ask on a terminal" } },
    examples: [{ run: "svc agent delete alpha", purpose: "alpha can do nothing any more" }],
    async run(ctx, { args: { agent }, options }) {
      const { registry, apiKey } = await connectAsPerson(ctx, options);
      const [{ findAgent }, { deleteAgent }] = await Promise.all([
        import("../agents/agent_reference.ts"),
        import("../agents/deletion.ts"),
      ]);
      const found = await findAgent(ctx, agent);
      if (!options.yes && !ctx.out.json && ctx.confirm !== null) {
        ctx.out.finish();
        if (!await ctx.confirm(`Revoke ${agent} for good? This cannot be undone.`)) {
          ctx.out.note("Nothing is deleted.");
          return EXIT.failed;
        }
      }
      ctx.out.doing(`Revoking ${agent}`);
      const { wasRevoked } = await deleteAgent(ctx, { registry, apiKey }, found);
      const { id, localName } = found;
      const files = localName === null ? "" : " Its files are gone from this machine.";
      ctx.out.result(
        { id, localName, status: "revoked" },
        `The agent ${agent} is revoked${wasRevoked ? ", as it was before" : " for good"}.${files}`,
      );
    },
  }),
];

/** Reads page after page, up to `MAX_PAGES`; the cursor of the rest, if any, is that of the last page. */
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
  throw new CliError("CLI_USAGE", `--ttl-days must be a whole number ${TTL_RANGE}, not "${text}"`);
}
