/** `svc whoami`, and `svc status`: registry, proxy, person and agents at a glance. */
import { connectAsPerson } from "../account/registry_access.ts";
import { AGENT_OPTION, command, PERSON_OPTIONS } from "../command_line/command.ts";
import type { AgentOverview } from "../doctor/overview.ts";
import { EXIT } from "../errors.ts";
import { fields } from "../terminal/output.ts";

export const COMMANDS = [
  command({
    path: ["whoami"],
    summary: "Show the person whose API key is configured",
    options: PERSON_OPTIONS,
    examples: { "svc whoami": "Show which account this machine uses, and its role" },
    async run(ctx, { options }) {
      const { registry, registryUrl, apiKey: own } = connectAsPerson(ctx, options);
      const { human, apiKey } = await registry.me(own);
      ctx.out.result({ registryUrl, human, apiKey }, [
        ctx.out.bold(human.displayName),
        ...fields([
          ["human", human.did],
          ["role", human.role],
          ["since", human.createdAt],
          ["API key", `${apiKey.name} (${apiKey.id})`],
          ["registry", registryUrl],
        ]),
      ]);
    },
  }),
  command({
    path: ["status"],
    summary: "Show registry, proxy, person, and the agents on this machine",
    details: ["Exits with 1 if a service or a running connector is not healthy."],
    options: { ...PERSON_OPTIONS, agent: { ...AGENT_OPTION.agent, summary: "Only this agent (default: every agent)" } },
    examples: { "svc status": "Show whether everything works, and what is unread" },
    async run(ctx, { options }) {
      const { NO_API_KEY, overview } = await import("../doctor/overview.ts");
      ctx.out.doing("Looking at services and connectors");
      const { registry, proxy, person, agents } = await overview(ctx, options);
      const service = ({ url, problem }: { url: string | null; problem: string | null }) =>
        url === null ? "not configured" : problem === null ? url : `${url}: NOT HEALTHY, it ${problem}`;
      const count = (number: number | null) => number === null ? null : String(number);
      for (const { name, problem } of agents) if (problem !== null) ctx.out.warn(`${name}: ${problem}`);
      const shown = agents.map(({ hasPeers: _, ...agent }) => agent);
      ctx.out.result({ registry, proxy, person, agents: shown }, [
        ...fields([
          ["registry", service(registry)],
          ["proxy", service(proxy)],
          ["person", person.problem ?? (ctx.out.showsIds ? `${person.name}, ${person.did}` : person.name)],
        ]),
        "",
        ...agents.length === 0 ? [`No agents in ${ctx.configDir}.`] : ctx.out.table<AgentOverview>([
          { head: "AGENT", of: ({ name }) => name },
          { head: "CONNECTOR", rank: 1, of: ({ connector }) => connector },
          { head: "LINK", rank: 2, of: ({ link }) => link },
          { head: "UNREAD", rank: 2, of: ({ unread }) => count(unread) },
          { head: "DEAD LETTERS", rank: 3, of: ({ deadLetters }) => count(deadLetters) },
          { head: "DID", isWide: true, of: ({ did }) => did },
        ], agents),
      ]);
      const lonely = agents.find(({ hasPeers, problem }) => !hasPeers && problem === null);
      // A command that reads the link from standard input keeps the code out of the process list.
      if (person.problem === NO_API_KEY) ctx.out.next(["join", "-"], { when: "then paste the link of your invite" });
      else if (agents.length === 0) ctx.out.next(["agent", "create", "my-agent"]);
      else if (lonely?.connector === "not running") {
        ctx.out.next(["connector", "start", lonely.name], { when: "then press p to pair with another agent" });
      } else if (lonely !== undefined) {
        ctx.out.note(`${lonely.name} has no peer yet: press p where its connector runs.`);
      }
      const isIll = [registry, proxy].some(({ problem }) => problem !== null) ||
        agents.some(({ connector }) => connector === "unhealthy");
      return isIll ? EXIT.failed : EXIT.done;
    },
  }),
];
