/** The facts of `svc admin overview` (D-175): both services, and the relay as the proxy reports it. Changes nothing. */
import type { Refusal } from "../../shared/protocol/api/relay_admin.ts";
import { describeError } from "../../shared/client/refusals.ts";
import type { RelayAdminClient } from "../client/relay_admin_client.ts";
import type { Context } from "../context.ts";
import { healthOf, type ServiceOverview } from "./overview.ts";
import { fields } from "../terminal/output.ts";
import { connect, type ConnectionOptions } from "../account/registry_access.ts";
import { connectToRelay } from "../account/relay_access.ts";

/** A number that was counted up to a bound. */
interface Count {
  count: number;
  /** False when there may be more. */
  isComplete: boolean;
}

export interface AdminOverview {
  registry: ServiceOverview & { version: string; environment: string };
  proxy: ServiceOverview;
  /** `null` when the proxy did not report it. */
  relay: {
    online: Count;
    /** Recipients with queued messages. */
    queues: Count;
    queuedMessages: number;
    refusals: Refusal[];
    refusalsSince: string;
  } | null;
}

/** Most pages of a list that are counted. */
const MAX_PAGES = 10;
const PAGE = "100";
const REFUSALS = "20";

/** @throws {CliError} and {ApiError} of the registry; a proxy that does not answer is only a warning */
export async function adminOverview(ctx: Context, options: ConnectionOptions): Promise<AdminOverview> {
  const { registry, registryUrl, config } = await connect(ctx, options);
  const { version, environment, proxyUrl: named } = await registry.metadata();
  // An API key that is not an admin's is refused here.
  const relay = await connectToRelay(ctx, options);
  const [ofRegistry, ofProxy, told] = await Promise.all([
    healthOf(ctx, registryUrl),
    healthOf(ctx, config.proxyUrl ?? named),
    relayOf(relay).catch((error) => {
      ctx.out.warn(`The proxy did not report on its relay: ${describeError(error)}`);
      return null;
    }),
  ]);
  return { registry: { ...ofRegistry, version, environment }, proxy: ofProxy, relay: told };
}

/** Returns the overview as lines, without the refusals. */
export function overviewLines({ registry, proxy, relay }: AdminOverview): string[] {
  const service = ({ url, problem }: ServiceOverview) => problem === null ? url : `${url}: NOT HEALTHY, it ${problem}`;
  const counted = ({ count, isComplete }: Count) => isComplete ? `${count}` : `at least ${count}`;
  return fields([
    ["registry", service(registry)],
    ["proxy", service(proxy)],
    ["version", registry.version],
    ["environment", registry.environment],
    ["agents online", relay === null ? "unknown" : counted(relay.online)],
    [
      "queued messages",
      relay === null ? "unknown" : `${relay.queuedMessages} for ${counted(relay.queues)} recipients`,
    ],
    ["refusals kept since", relay === null ? "unknown" : relay.refusalsSince],
  ]);
}

async function relayOf(relay: RelayAdminClient): Promise<NonNullable<AdminOverview["relay"]>> {
  const [connections, queues, { refusals, since }] = await Promise.all([
    firstPages((cursor) => relay.connections({ online: "true", limit: PAGE, cursor })),
    firstPages((cursor) => relay.queues({ limit: PAGE, cursor })),
    relay.refusals({ limit: REFUSALS }),
  ]);
  const waiting = queues.pages.flatMap((page) => page.queues);
  return {
    online: {
      count: connections.pages.reduce((sum, page) => sum + page.connections.length, 0),
      isComplete: connections.isComplete,
    },
    queues: { count: waiting.length, isComplete: queues.isComplete },
    queuedMessages: waiting.reduce((sum, { messages }) => sum + messages, 0),
    refusals,
    refusalsSince: since,
  };
}

async function firstPages<P extends { pagination: { nextCursor: string | null } }>(
  read: (cursor: string | undefined) => Promise<P>,
): Promise<{ pages: P[]; isComplete: boolean }> {
  const pages: P[] = [];
  let cursor: string | undefined;
  while (pages.length < MAX_PAGES) {
    const page = await read(cursor);
    pages.push(page);
    if (page.pagination.nextCursor === null) return { pages, isComplete: true };
    cursor = page.pagination.nextCursor;
  }
  return { pages, isComplete: false };
}
