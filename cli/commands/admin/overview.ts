/** `svc admin overview`: registry and proxy at a glance. */
import { sleep } from "../../../shared/clock.ts";
import type { RelayOverview } from "../../../shared/protocol/api/relay_admin.ts";
import { connect, connectAsAdmin, type ConnectionOptions, connectToRelay } from "../../account/registry_access.ts";
import type { AdminClient, RelayAdminClient } from "../../client/admin_client.ts";
import { command, PERSON_OPTIONS } from "../../command_line/command.ts";
import type { Context } from "../../context.ts";
import { stopSignal } from "../../terminal/interrupt.ts";
import { idCell } from "../../terminal/tables.ts";
import { agoText, clockText, durationText } from "../../terminal/times.ts";
import { wasRefused } from "../../../shared/client/errors.ts";
import { describeError } from "../../../shared/client/refusals.ts";
import { parseIso } from "../../../shared/protocol/time.ts";
import { healthOf } from "../status.ts";
import { namesOf } from "./pages.ts";

/** With `--json` the result has this many refusals, the newest ones. */
const REFUSALS = 20;
const WATCH_EVERY_MS = 5_000;

export const COMMANDS = [
  command({
    path: ["admin", "overview"],
    summary: "Show people, agents, queues, the store, and who was refused",
    details: [
      "The proxy counts refusals in memory, for this hour and the one before. With several instances, they and the memory",
      "are those of the instance that answers.",
    ],
    options: { ...PERSON_OPTIONS, watch: { summary: `Show it again every ${WATCH_EVERY_MS / 1000} s, until Ctrl-C` } },
    examples: { "svc admin overview": "Show at a glance whether the network works" },
    async run(ctx, { options }) {
      if (!options.watch) {
        const overview = await adminOverview(ctx, options);
        return ctx.out.result({ ...overview }, overviewLines(overview, ctx));
      }
      using stopped = stopSignal(ctx);
      for (let isShown = false; !stopped.signal.aborted;) {
        try {
          const overview = await adminOverview(ctx, options);
          if (!ctx.out.again(overview, overviewLines(overview, ctx))) return;
          isShown = true;
        } catch (error) {
          // A restart of the server would otherwise end what its operator watches it with.
          if (!isShown || wasRefused(error)) throw error;
          const why = describeError(error).replace(/\.$/, "");
          ctx.out.warn(`At ${clockText(ctx.clock.now())}: ${why}. It is asked again every ${WATCH_EVERY_MS / 1000} s.`);
        }
        await sleep(ctx.clock, WATCH_EVERY_MS, stopped.signal);
      }
    },
  }),
];

type AdminOverview = Awaited<ReturnType<typeof adminOverview>>;
type RelayFacts = Awaited<ReturnType<typeof relayFacts>>;

/** With more, an overview does not fit a terminal, and each agent costs a request for its name. */
const REFUSED_SHOWN = 10;

/** @throws {CliError} and {ApiError} of the registry; a proxy that does not answer is only a warning */
async function adminOverview(ctx: Context, options: ConnectionOptions) {
  const admin = connectAsAdmin(ctx, options);
  const { registry, registryUrl, config } = connect(ctx, options);
  const { version, environment, proxyUrl: named } = await registry.metadata();
  // Fails for an API key that is not an admin's, because the registry then issues no token for the proxy.
  const relay = await connectToRelay(ctx, options);
  const [counts, ofRegistry, ofProxy, told] = await Promise.all([
    admin.counts(),
    healthOf(ctx, registryUrl),
    healthOf(ctx, config.proxyUrl ?? named),
    relayFacts(relay, admin).catch((error) => {
      ctx.out.warn(`The proxy did not report on its relay: ${describeError(error)}`);
      return null;
    }),
  ]);
  const registryFacts = { ...ofRegistry, url: registryUrl, version, environment };
  return { registry: registryFacts, proxy: ofProxy, counts, relay: told };
}

async function relayFacts(relay: RelayAdminClient, admin: AdminClient) {
  const [overview, { refusals, since, groups }] = await Promise.all([
    relay.overview(),
    relay.refusals({ limit: REFUSALS, group: "agent" }),
  ]);
  const shown = groups?.byAgent.slice(0, REFUSED_SHOWN) ?? [];
  const hidden = groups?.byAgent.slice(REFUSED_SHOWN) ?? [];
  const names = await namesOf(admin, shown.map(({ agentDid }) => agentDid));
  return {
    refusals,
    refusalsSince: since,
    overview,
    refused: {
      since: groups?.since ?? since,
      byAgent: shown.map((group) => {
        const { agent = null, owner = null } = names.get(group.agentDid ?? "") ?? {};
        return { ...group, agentName: agent, ownerName: owner };
      }),
      others: hidden.reduce((sum, { count }) => sum + count, groups?.others ?? 0),
    },
  };
}

function overviewLines({ registry, proxy, counts, relay }: AdminOverview, ctx: Context): string[] {
  const now = ctx.clock.now();
  const { people, agents, expiring7d, complete } = counts;
  const problems = [["registry", registry.problem], ["proxy", proxy.problem]] as const;
  const down = problems.flatMap(([name, problem]) => problem === null ? [] : [`NOT HEALTHY: the ${name} ${problem}`]);
  const states = down.length === 0 ? ["ready"] : down;
  const since = (iso: string) => durationText(now - (parseIso(iso) ?? now));
  const here = relay?.overview.agents;
  const connected: [count: number, what: string][] = here
    ? [[here.online, "online"], [here.offlineOver1d, "offline for over a day"]]
    : [[agents.active, "active"]];
  const up = relay === null ? [] : [`up ${since(relay.overview.startedAt)}`];
  const lines = [
    [new URL(registry.url).host, ...states, `version ${registry.version}`, ...up].join(" · "),
    numberLine("People", people.active + people.suspended, [[people.suspended, "suspended"]]),
    numberLine("Agents", agents.active + agents.revoked, [...connected, [agents.revoked, "revoked"]]),
    `${numberLine("Tokens", expiring7d, [])}   identity tokens end within 7 days`,
    ...complete && relay?.overview.complete !== false
      ? []
      : ["There are more: only 100,000 people, agents and queues are counted."],
  ];
  return relay === null ? lines : [...lines, ...relayLines(relay, since), ...refusedLines(relay, ctx)];
}

function numberLine(label: string, count: number, parts: readonly (readonly [count: number, what: string])[]): string {
  const text = parts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`).join(", ");
  return `${label.padEnd(8)}${String(count).padStart(6)}${text === "" ? "" : `   ${text}`}`;
}

function relayLines({ overview }: RelayFacts, since: (iso: string) => string): string[] {
  const { queues: { messages, recipients, oldestAt }, store, memoryBytes, links, crossed } = overview;
  const whose = `${plural(messages, "message")} for ${recipients} ${plural(recipients, "agent")}`;
  const oldest = oldestAt === null ? "" : `   ${whose}, the oldest since ${since(oldestAt)}`;
  const disk = store === null ? [] : [`Store      ${sizeText(store.bytes)}, ${sizeText(store.freeBytes)} free`];
  return [
    `${numberLine("Waiting", messages, [])}${oldest}`,
    [...disk, `Memory  ${sizeText(memoryBytes)}`].join("      "),
    ...links.open + links.missing.length + crossed.note === 0 ? [] : [
      numberLine("Links", links.open, [
        [links.missing.length, "missing"],
        [crossed.link, "messages over them"],
        [crossed.note, "through the store"],
      ]),
    ],
  ];
}

const plural = (count: number, noun: string): string => count === 1 ? noun : `${noun}s`;

function refusedLines({ refused, overview }: RelayFacts, { out, clock }: Context): string[] {
  if (refused.byAgent.length === 0) return [];
  const now = clock.now();
  const rows = refused.byAgent.map(({ code, check, agentDid, agentName, ownerName, count, lastAt }) => ({
    what: code + limitText(check, overview),
    count,
    who: agentName === null ? idCell(agentDid) : `${agentName} of ${ownerName}`,
    last: agoText(now - (parseIso(lastAt) ?? now)) as string | null,
  }));
  if (refused.others > 0) rows.push({ what: "others", count: refused.others, who: null, last: null });
  const from = clockText(parseIso(refused.since) ?? 0);
  const table = out.table([
    { head: `Refused since ${from}`, of: ({ what }) => what },
    { head: "COUNT", rank: 1, of: ({ count }) => String(count) },
    { head: "AGENT", rank: 2, of: ({ who }) => who },
    { head: "LAST", rank: 3, of: ({ last }) => last },
  ], rows);
  return ["", ...table];
}

/**
 * Text of the limit of an agent's requests if that limit caused the refusal (the proxy's check 9), else an empty text.
 */
function limitText(check: number | null, { agentLimit: { requests, windowMs } }: RelayOverview): string {
  if (check !== 9) return "";
  return windowMs === 60_000 ? ` (${requests} a minute)` : ` (${requests} in ${durationText(windowMs)})`;
}

const SIZES = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["KB", 1e3]] as const;

function sizeText(bytes: number): string {
  const [unit, size] = SIZES.find(([, size]) => bytes >= size) ?? ["B", 1];
  return `${(bytes / size).toFixed(size > 1 && bytes < 10 * size ? 1 : 0)} ${unit}`;
}
