/** Commands for an agent's identity token and session. */
import { command, PERSON_OPTIONS, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { connect, connectAsPerson } from "../account/registry_access.ts";
import { fields } from "../terminal/output.ts";

const HERE = { summary: "Agent name on this machine", complete: "agents" } as const;

export const COMMANDS = [
  command({
    path: ["agent", "reissue"],
    summary: "Issue a new identity token for an agent; the previous one is revoked",
    details: ["An agent without an active session also gets a new session."],
    args: { name: HERE },
    options: PERSON_OPTIONS,
    examples: { "svc agent reissue alpha": "Replace the token before it expires, or after the session ended" },
    async run(ctx, { args: { name }, options }) {
      const [{ AgentStore }, { reissueAgent }] = await Promise.all([
        import("../agents/agent_store.ts"),
        import("../agents/lifecycle.ts"),
      ]);
      const owner = connectAsPerson(ctx, options);
      ctx.out.doing(`Reissuing the token of ${name}`);
      const { identity, newSession } = await reissueAgent(owner, new AgentStore(ctx), name);
      const { did, expiresAt } = identity;
      ctx.out.result({ name, did, expiresAt, newSession }, [
        `${name} has a new identity token${newSession ? " and a new session" : ""}; the previous token is revoked.`,
        ...fields([["expires", expiresAt]]),
      ]);
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
    examples: { "svc agent auth refresh alpha": "Get an access token that is valid for 15 minutes" },
    async run(ctx, { args: { name }, options }) {
      const [{ AgentStore }, { refreshAgent }] = await Promise.all([
        import("../agents/agent_store.ts"),
        import("../agents/refresh.ts"),
      ]);
      const { auth, how } = await refreshAgent(
        ctx,
        new AgentStore(ctx),
        name,
        (registryUrl) => connect(ctx, options, registryUrl).registry,
      );
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
    args: { agent: { summary: "Agent name on this machine, agent ID or DID", complete: "agents", orId: true } },
    options: PERSON_OPTIONS,
    examples: { "svc agent auth revoke alpha": "Its access and refresh tokens stop working" },
    async run(ctx, { args: { agent }, options }) {
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const { findAgent } = await import("../agents/agent_reference.ts");
      const { id, localName } = await findAgent(ctx, agent);
      await registry.revokeAgentAuth(apiKey, id);
      ctx.out.result({ id, localName, session: "revoked" }, `The session of ${agent} has ended.`);
      if (localName !== null) ctx.out.next(["agent", "reissue", localName], { when: "for a new session" });
    },
  }),
];
