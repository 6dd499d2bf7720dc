/** `svc admin agents …`: the agents of all people (D-169, D-171). */
import type { AgentConnection } from "../../../shared/protocol/api/relay_admin.ts";
import { connectAsAdmin, type ConnectionOptions } from "../../account/registry_access.ts";
import { command, PERSON_OPTIONS } from "../../command_line/command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../errors.ts";
import { fields, table } from "../../terminal/output.ts";
import { hintNextPage, idOf, isConfirmed, PAGE_OPTIONS, readPages } from "./pages.ts";

const AGENT = { summary: "ID or DID of the agent, from svc admin agents list" } as const;
const STATUSES = ["active", "revoked"] as const;

export const ADMIN_AGENT_COMMANDS = [
  command({
    path: ["admin", "agents", "list"],
    summary: "List the agents of all people, newest first",
    args: {},
    options: {
      ...PERSON_OPTIONS,
      ...PAGE_OPTIONS,
      status: { value: "status", summary: "Only active or revoked agents", complete: STATUSES },
      framework: { value: "label", summary: "Only agents with this framework label" },
      owner: { value: "person", summary: "Only agents of this person, by ID or DID" },
      online: { summary: "Show also which agents are connected, as the proxy reports it" },
    },
    examples: [{ run: "svc admin agents list --status active --all", purpose: "Show every agent that may act" }],
    async run(ctx, { options }) {
      const { status, framework } = options;
      const ownerId = options.owner === undefined ? undefined : await idOf("human", options.owner);
      const admin = await connectAsAdmin(ctx, options);
      const pages = await readPages(options, (page) => admin.agents({ status, framework, ownerId, ...page }));
      const connections = options.online ? await connectionsByDid(ctx, options) : null;
      const agents = pages.flatMap((page) => page.agents).map((agent) =>
        connections === null ? agent : { ...agent, connection: connections.get(agent.did) ?? null }
      );
      const rows = agents.map(({ id, did, name, framework, status, session, expires, ownerDid }) => [
        id,
        name,
        framework,
        status,
        session,
        ...connections === null ? [] : [onlineText(connections.get(did))],
        expires,
        ownerDid,
      ]);
      const online = connections === null ? [] : ["ONLINE"];
      ctx.out.result(
        { agents, pagination: pages.at(-1)?.pagination },
        rows.length === 0
          ? "No agents here."
          : table(["ID", "NAME", "FRAMEWORK", "STATUS", "SESSION", ...online, "EXPIRES", "OWNER"], rows),
      );
      const filters = Object.entries({ status, framework, owner: ownerId });
      const words = filters.flatMap(([name, value]) => value === undefined ? [] : [`--${name}`, value]);
      hintNextPage(ctx, ["admin", "agents", "list", ...words], pages);
    },
  }),
  command({
    path: ["admin", "agents", "show"],
    summary: "Show any agent, with its session",
    args: { id: AGENT },
    options: PERSON_OPTIONS,
    examples: [{ run: "svc admin agents show 01KHYQ5H00AAAAAAAAAAAAAAAA", purpose: "Show one agent" }],
    async run(ctx, { args, options }) {
      const id = await idOf("agent", args.id);
      const { agent, session } = await (await connectAsAdmin(ctx, options)).agent(id);
      ctx.out.result({ agent, session }, [
        ctx.out.bold(agent.name),
        ...fields([
          ["id", agent.id],
          ["agent", agent.did],
          ["owner", agent.ownerDid],
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
    summary: "Revoke any agent permanently",
    details: ["Its identity token is added to the revocation list at once. This cannot be undone."],
    args: { id: AGENT },
    options: { ...PERSON_OPTIONS, yes: { summary: "Do not ask for confirmation" } },
    examples: [{ run: "svc admin agents revoke 01KHYQ5H00AAAAAAAAAAAAAAAA", purpose: "Stop an agent everywhere" }],
    async run(ctx, { args, options }) {
      const id = await idOf("agent", args.id);
      const admin = await connectAsAdmin(ctx, options);
      const question = `Revoke ${id} permanently? This cannot be undone.`;
      if (!await isConfirmed(ctx, options.yes, question)) return EXIT.failed;
      ctx.out.doing(`Revoking ${id}`);
      await admin.deleteAgent(id);
      ctx.out.result({ id, status: "revoked" }, `The agent ${id} is revoked permanently.`);
    },
  }),
  command({
    path: ["admin", "agents", "end-session"],
    summary: "End the session of any agent; the agent stays active",
    details: ["Its owner can give it a new session with svc agent reissue."],
    args: { id: AGENT },
    options: PERSON_OPTIONS,
    examples: [{ run: "svc admin agents end-session 01KHYQ5H00AAAAAAAAAAAAAAAA", purpose: "Disconnect an agent" }],
    async run(ctx, { args, options }) {
      const id = await idOf("agent", args.id);
      const admin = await connectAsAdmin(ctx, options);
      await admin.endSession(id);
      ctx.out.result({ id, session: "revoked" }, `The agent ${id} has no session now.`);
    },
  }),
];

/** Returns when each agent was connected last, by DID, from every page of the proxy. */
async function connectionsByDid(ctx: Context, options: ConnectionOptions): Promise<Map<string, AgentConnection>> {
  const { connectToRelay } = await import("../../account/relay_access.ts");
  const relay = await connectToRelay(ctx, options);
  const pages = await readPages({ all: true }, (page) => relay.connections(page));
  return new Map(pages.flatMap((page) => page.connections).map((one) => [one.agentDid, one]));
}

/** Returns "yes", or since when the agent is not connected, as far as the proxy knows it. */
function onlineText(connection: AgentConnection | undefined): string {
  if (connection === undefined) return "never";
  if (connection.online) return "yes";
  return connection.disconnectedAt === null ? "no" : `no, since ${connection.disconnectedAt}`;
}
