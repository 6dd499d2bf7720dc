/** `svc join`: turns a join link into an account, and on request into an agent. */
import { parseServiceUrl } from "../../shared/client/service_url.ts";
import { checkSavable, configPath, readConfig } from "../account/config_store.ts";
import { accountFields, FIRST_NAME_OPTIONS, firstAgent, firstNames, saveAccount } from "../agents/new_account.ts";
import { parseJoinLink, ticketOf } from "../account/join_link.ts";
import { redeem } from "../account/redemption.ts";
import type { CreatedAgent } from "../agents/registration.ts";
import { withAccountLock } from "../files/lock.ts";
import { secureServiceUrl } from "../files/profile.ts";
import { runConnectors } from "./connector/connector.ts";
import { command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import type { Context } from "../context.ts";
import { CliError, describeFor } from "../errors.ts";
import { IN_A_CODING_AGENT } from "../hosts/table.ts";
import { RegistryClient } from "../client/registry_client.ts";
import { AgentStore } from "../agents/agent_store.ts";
import { access } from "../connector/attach.ts";
import { call, post } from "../../shared/client/local_client.ts";
import { PairConfirmAnswer } from "../../shared/protocol/api/pairing.ts";

export const COMMANDS = [
  command({
    path: ["join"],
    summary: "Join a registry with the link of an invite: create an account and save its key",
    details: [
      "svc invite create prints the link. The code after # goes to the registry that the link names, and to no other.",
      "A link of svc invite create --pair also pairs the new agent with one of the person who sent it.",
    ],
    args: {
      link: { summary: "Join link https://…/join#svc_inv_…, or set SVC_JOIN_LINK", secret: true, env: "SVC_JOIN_LINK" },
    },
    options: {
      "allow-insecure": REGISTRY_OPTIONS["allow-insecure"],
      ...FIRST_NAME_OPTIONS,
      replace: { summary: "Replace the account that is saved in config.json" },
      "no-pair": { summary: "Leave out the pairing part of the link" },
      start: { summary: "Run the connector of the new agent then, until it is stopped" },
    },
    examples: {
      "svc join 'https://registry.example/join#svc_inv_…' --display-name Ada --agent alpha":
        "Join as Ada, with an agent named alpha",
    },
    async run(ctx, { args, options }) {
      const link = parseJoinLink(args.link);
      const { registryUrl: linked, code } = link;
      const pairs = link.ticketFields !== null && !options["no-pair"];
      const registryUrl = secureServiceUrl(ctx, linked, "the join link");
      if (!options.replace) await refuseSavedAccount(ctx, registryUrl, pairs);
      const { displayName, agent: agentName } = await firstNames(ctx, options, pairs || options.start);
      if (agentName === undefined && (pairs || options.start)) {
        // Refused before anything is sent, so the link still works.
        const what = pairs ? "The link also pairs an agent of yours" : "--start runs the connector of an agent";
        const fix = pairs ? "Add --agent <new>, or --no-pair to leave that out." : "Add --agent <new>.";
        throw new CliError("CLI_USAGE", `${what}, and none is named`, { fix });
      }
      const registry = new RegistryClient(ctx, registryUrl);
      ctx.out.doing(`Asking ${registryUrl} for its addresses`);
      const proxyUrl = secureServiceUrl(ctx, await proxyOf(registry), "the address of the proxy");
      if (pairs) ctx.out.note("The link also pairs your agent with an agent of the person who sent it.");
      const pairing = await withAccountLock(ctx, async () => {
        // Again, because another join may have saved its account while a person was asked or the lock was waited for.
        if (!options.replace) await refuseSavedAccount(ctx, registryUrl, pairs);
        await checkSavable(ctx);
        ctx.out.doing(`Redeeming the invite at ${registryUrl}`);
        const { human, apiKey } = await redeem(ctx, registry, code, displayName);
        warnOfVariables(ctx, registryUrl);
        const owner = { registry, apiKey: apiKey.token };
        let agent: CreatedAgent | null = null, pairing: PairResult | null = null;
        try {
          await saveAccount(ctx, owner, human, proxyUrl);
          if (agentName !== undefined) agent = await firstAgent(ctx, owner, agentName);
          const ticket = pairs ? ticketOf(link, proxyUrl) : null;
          if (agent !== null && ticket !== null) pairing = await pairWith(ctx, agent, ticket, options.start);
        } finally {
          // Printed even after a failure, because the account exists by then, and its key is never shown again.
          const made = {
            ...agent && { agent: { ...agent.identity, path: agent.path } },
            ...pairing && { pairing: pairing.json },
          };
          ctx.out.result({ registryUrl, proxyUrl, human, apiKey, ...made }, [
            ctx.out.bold(`${human.displayName} has an account at ${registryUrl}.`),
            ...accountFields(ctx, { human, apiKey }, agent && agent.identity),
            "",
            "The API key is shown only once.",
          ]);
        }
        return pairing;
      });
      if (pairing !== null) ctx.out.note(pairing.text);
      if (agentName === undefined) return ctx.out.next(["agent", "create", "my-agent"]);
      if (options.start) return await runConnectors(ctx, [agentName], {});
      ctx.out.next(["connector", "start", agentName]);
      ctx.out.next(["mcp", "install", agentName, "--for", "claude-code"], { when: IN_A_CODING_AGENT });
    },
  }),
];

interface PairResult {
  json: { paired: true; agentDid: string; agentName: string; humanName: string } | { paired: false; code: string };
  text: string;
}

const OVER: ReadonlySet<string> = new Set([
  "PROXY_PAIR_TICKET_EXPIRED",
  "PROXY_PAIR_TICKET_NOT_FOUND",
  "PROXY_PAIR_TICKET_ALREADY_CONFIRMED",
]);

/** Pairs through the connector, which proves and pins the keys. Does not throw, because the account exists already. */
async function pairWith(
  ctx: Context,
  { identity: { name } }: CreatedAgent,
  ticket: string,
  starts: boolean,
): Promise<PairResult> {
  try {
    const folder = await new AgentStore(ctx).open(name);
    await using connector = await access(ctx, folder);
    const answer = await call(connector, PairConfirmAnswer, post("/v1/pair/confirm", { ticket }));
    const { initiatorAgentDid: agentDid, initiatorProfile: { agentName, humanName } } = answer;
    const text = `Paired with ${agentName} of ${humanName}.`;
    return { json: { paired: true, agentDid, agentName, humanName }, text };
  } catch (error) {
    const { code, cause, fix } = describeFor(name, error);
    // Unless the connector starts in this terminal, the shell comes next, which would keep the ticket in its history.
    const place = starts ? "here" : `into svc connector start ${name}`;
    const over = "The pairing part of the link is over: it lives 15 min. The other person presses p; paste that ticket";
    const text = OVER.has(code) ? `${over} ${place}.` : `Not paired: ${cause}. ${fix}`.trimEnd();
    return { json: { paired: false, code }, text };
  }
}

/**
 * Refuses while an account is saved, because a hostile link could replace it. @throws {CliError} `CLI_CONFIG_IN_USE`
 */
async function refuseSavedAccount(ctx: Context, registryUrl: string, pairs: boolean): Promise<void> {
  const saved = readConfig(ctx);
  if (saved?.apiKey === undefined) return;
  const isHere = saved.registryUrl === registryUrl;
  const [begun] = isHere ? (await new AgentStore(ctx).names()).pending : [];
  const pair = "the other person presses p; paste that ticket into svc connector start.";
  // A join may have been cut off. That has used up its invite, so only the rest can be done again.
  const fix = begun !== undefined
    ? `Its agent ${begun} is not complete: svc agent create ${begun}. If the link also pairs: ${pair}`
    : isHere && pairs
    ? `You are at this server already. To pair an agent of yours with the one of the link: ${pair}`
    : isHere
    ? "You are at this server already. For an agent: svc agent create <new>. Add --profile <profile> for another account."
    : undefined;
  throw new CliError("CLI_CONFIG_IN_USE", `${configPath(ctx)} holds the API key of an account`, { fix });
}

/**
 * Returns the address of the proxy.
 * @throws {CliError} `CLI_REGISTRY_MISMATCH` when the registry has another address
 */
async function proxyOf(registry: RegistryClient): Promise<string> {
  const { registryUrl, proxyUrl } = await registry.metadata();
  const named = parseServiceUrl(registryUrl);
  if (named === registry.registryUrl) return proxyUrl;
  const other = named === null || named.length > 256 ? "another address" : named;
  throw new CliError("CLI_REGISTRY_MISMATCH", `The link names ${registry.registryUrl}, the registry there ${other}`);
}

/** Warns of variables that later commands would use in place of the saved values. */
function warnOfVariables(ctx: Context, registryUrl: string): void {
  const own = ctx.env("SVC_REGISTRY_URL");
  if (own !== undefined && parseServiceUrl(own) !== registryUrl) {
    ctx.out.warn("SVC_REGISTRY_URL is set and names another registry; later commands use that one");
  }
  if (ctx.env("SVC_API_KEY") !== undefined) {
    ctx.out.warn("SVC_API_KEY is set; later commands use it in place of the saved key");
  }
}
