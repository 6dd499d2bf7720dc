/** Creates the proxy: builds its parts from external dependencies and mounts the route table. */
import { type Clock, settledWithin } from "../shared/clock.ts";
import { toBase64Url } from "../shared/protocol/base64url.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import type { CheckAccessToken } from "../shared/server/store/access_check.ts";
import { type App, createApp, type ServiceDeps } from "../shared/server/http/app.ts";
import { TrustChanges } from "../shared/server/store/trust_changes.ts";
import { Changes } from "../shared/server/store/changes.ts";
import { GroupCommit } from "../shared/server/store/group_commit.ts";
import { ExpirySweeper } from "../shared/server/store/expiry_sweeper.ts";
import type { Metrics } from "../shared/server/metrics/metrics.ts";
import { BatchedReads } from "../shared/server/store/batched_reads.ts";
import { RateLimiter } from "../shared/server/rate_limit.ts";
import type { DiskSpace } from "../shared/server/machine.ts";
import { StoreCount } from "../shared/server/store/store_count.ts";
import { StoreReserve } from "../shared/server/store/store_reserve.ts";
import { StoreProbe } from "../shared/server/store/store_probe.ts";
import { countRelay, type RelayCounts } from "./admin/overview.ts";
import { Refusals } from "./admin/refusals.ts";
import { RelaySeries } from "./admin/series.ts";
import { AitCache } from "./admission/ait_cache.ts";
import { ACCESS_TOKEN_ENDED, CHECKS, windowRules } from "./admission/checks.ts";
import { CrlCache } from "./admission/crl_cache.ts";
import { BadProofLimiter } from "./admission/bad_proof_limiter.ts";
import { KeyCache } from "./admission/key_cache.ts";
import type { ProxyConfig } from "./config.ts";
import type { ProxyDeps } from "./deps.ts";
import { IssuerPolicy } from "./issuer_policy.ts";
import { Issuers, type Lookup } from "./federation/issuers.ts";
import { Visitors } from "./federation/visitors.ts";
import { Senders } from "./message/sender.ts";
import { Standings } from "./admission/standing.ts";
import { OwnerBudgets } from "./owner_budgets.ts";
import { KEYS } from "./schema/kv_keys.ts";
import { sweptFamilies } from "./schema/retention.ts";
import { RegistryClient, type Send } from "./registry_client.ts";
import { InstanceInbox } from "./relay/instance_inbox.ts";
import { type Dial, InstanceLinks } from "./relay/instance_links.ts";
import { InstanceLeases } from "./relay/instance_leases.ts";
import { PresenceStore } from "./relay/presence.ts";
import { RecipientReturn } from "./relay/recipient_return.ts";
import type { UpgradeWebSocket } from "./relay/connect.ts";
import { Deliveries } from "./message/deliveries.ts";
import { MessageForwarder } from "./relay/message_forwarder.ts";
import { MailboxDelivery } from "./relay/mailbox_delivery.ts";
import { InFlightBudget } from "./relay/in_flight_budget.ts";
import { ConnectedAgents } from "./relay/connected_agents.ts";
import { Mailbox } from "./relay/mailbox.ts";
import { Revalidation } from "./relay/revalidation.ts";
import { SenderStatus } from "./relay/sender_status.ts";
import { AUTHENTICATORS, PROXY_ROUTES } from "./routes.ts";
import { PairRemoval } from "./trust/pair_removal.ts";

/** With less, all agents of an instance that stops connect at once, and their requests wait for each other. */
const RETURN_MS = 1_000;
/** Without another instance the next process must start first: with less, the agents connect in vain. */
const RETURN_ALONE_MS = 5_000;
/** About two connections a core and 8 ms: with less, they come faster than they can be admitted. */
export const RETURN_PER_AGENT_MS = 4;

export interface ProxyExternals extends ServiceDeps {
  /** Sends a request to the registry: `fetch`, or the `fetch` of the registry app in this process. */
  send: Send;
  /** Checks access tokens without a request to the registry, when both share process and store. */
  judgeAccess?: CheckAccessToken;
  upgrade: UpgradeWebSocket;
  /** Reaches other instances. */
  dial: Dial;
  /** Returns the space of the store's disk, or `null` when this process cannot see it. */
  diskSpace?(): DiskSpace | null;
  /** Sends requests to registries of other servers, and resolves their names. */
  abroad: { send: Send; lookup: Lookup };
  /** Returns the bytes of the store's file; `null` without a file. */
  storeBytes?(): number | null;
  /** Returns the memory of this process. */
  residentBytes?(): number;
}

/** A running proxy. */
export interface Proxy extends App {
  deps: ProxyDeps;
  /**
   * Starts the background work. `isSole` means that no other process uses the store. `address` (`host:port`) is where
   * other instances reach this one, if they do.
   */
  start(options?: { isSole?: boolean; address?: string | undefined }): Promise<void>;
  /**
   * Announces that this instance stops, and closes its sockets within half a second. It goes on to serve requests and notes.
   */
  leave(): Promise<void>;
  closeSockets(): void;
  /** Ends the background work, at the latest after `withinMs` milliseconds. */
  stop(withinMs?: number): Promise<void>;
}

export function createProxy(externals: ProxyExternals, config: ProxyConfig): Proxy {
  const { kv, maxChecks, clock, random, newId, log, metrics } = externals;
  const registry = new RegistryClient(externals.send, clock, config);
  const keys = new KeyCache(registry, clock, config.registryKeysTtlMs);
  const crl = new CrlCache({ kv, clock, random, log, metrics, registry, keys }, {
    issuer: config.registryUrl,
    refreshIntervalMs: config.crlRefreshIntervalMs,
    maxAgeMs: config.crlMaxAgeMs,
  });
  const commits = new GroupCommit(kv, maxChecks, {
    clock,
    markKey: KEYS.commitMark(newId()),
    metrics,
    inFlight: externals.commitsInFlight,
    reliedMs: externals.reliedMs,
    writes: externals.writes ?? null,
  });
  const reads = new BatchedReads(kv);
  const changes = new Changes({ kv, reads, clock, random, maxChecks, metrics });
  const owners = new OwnerBudgets(clock, config.ownerRequests);
  const connectedAgents = new ConnectedAgents(clock, newId, config.heartbeatIntervalMs, metrics, owners);
  const reserve = new StoreReserve(externals.diskSpace ?? (() => null), clock, config.storeReserveBytes);
  const mailbox = new Mailbox({ kv, clock, commits, metrics, reserve }, {
    ttlMs: config.mailboxTtlSeconds * 1000,
    receiptKeptMs: config.receiptKeptMs,
    ownerBytes: config.mailboxOwnerBytes,
    registryUrl: config.registryUrl,
  });
  const senders = new Senders({ kv, reads, clock, windowMs: config.agentWindowMs });
  const senderStatus = new SenderStatus(registry, clock);
  const pairRemoval = new PairRemoval({ kv, clock, random, log, crl, maxChecks });
  const policy = new IssuerPolicy(config);
  const issuers = new Issuers({
    ...{ kv, clock, random, log, metrics, config, ...externals.abroad },
    onList: (authority, deleted) => void pairRemoval.visitorsListed(authority, deleted),
  });
  const visitors = new Visitors({ kv, clock, changes, policy, issuers, config });
  const mailboxDelivery = new MailboxDelivery({
    kv,
    clock,
    log,
    metrics,
    connectedAgents,
    crl,
    senders: senderStatus,
    visitors,
    registryUrl: config.registryUrl,
    mailbox,
    ackTimeoutMs: config.ackTimeoutMs,
  });
  const revalidation = new Revalidation({
    clock,
    log,
    metrics,
    connectedAgents,
    crl,
    registry,
    intervalMs: config.sessionRevalidateMs,
  });
  const trustChanges = new TrustChanges(externals, (agentDids, since) => {
    senderStatus.forget(agentDids);
    void revalidation.onTrustChange(agentDids, since);
  });
  const leases = new InstanceLeases({ kv, clock, random, newId, log, metrics });
  const { instance } = leases;
  // In a queue of its own, a connect does not wait for a change of pairs that the store keeps waiting, nor the other way.
  const presences = new Changes({ kv, reads, clock, random, maxChecks, metrics });
  const presence = new PresenceStore({ kv, changes: presences, clock, leases });
  const inbox = new InstanceInbox({ kv, clock, newId, log, instance });
  const { upgrade, dial } = externals;
  const links = new InstanceLinks({ clock, random, log, metrics, leases, upgrade, dial });
  const deliveries = new Deliveries({
    clock,
    commits,
    log,
    leases,
    senders,
    attemptMs: config.ackTimeoutMs + LIMITS.wayBackMs,
  });
  const sweeper = new ExpirySweeper(
    { kv, maxChecks, clock, log, instance, leaseKey: KEYS.sweep() },
    sweptFamilies(kv, {
      receiptKeptMs: config.receiptKeptMs,
      instance,
      settle: (sender) => deliveries.settle(sender),
    }),
  );
  const forwarder = new MessageForwarder({
    kv,
    clock,
    log,
    metrics,
    newId,
    commits,
    deliveries,
    leases,
    presence,
    inbox,
    links,
    connectedAgents,
    mailboxDelivery,
    mailbox,
  });
  mailbox.onOutcome = (id, outcome) => void forwarder.tellDelivery(id, outcome);
  connectedAgents.onAttached = (agentDid) => {
    mailboxDelivery.deliverTo(agentDid);
  };
  connectedAgents.onGone = (agentDid) => {
    const isHere = () => connectedAgents.session(agentDid) !== undefined || connectedAgents.isOpening(agentDid);
    void presence.release(agentDid, isHere).catch((cause) => log("warn", "presence_failed", { agentDid, cause }));
  };
  crl.onInstalled = () => {
    void revalidation.onCrlInstalled();
    void pairRemoval.listed();
  };
  const refusals = new Refusals(clock);
  const held = new InFlightBudget();
  // Prometheus sees no increase in a series that begins with an attack, so the refusals of each check begin with 0.
  for (const [i, { failsWith }] of CHECKS.entries()) {
    for (const code of failsWith) {
      for (const origin of ["local", "foreign"]) metrics.add("refusals_total", 0, code, String(i + 1), origin);
    }
  }
  metrics.read("held_bytes", () => held.total);
  metrics.read("crl_age_seconds", () => crl.ageSeconds);
  metrics.read("crl_entries", () => crl.entries);
  metrics.read("registry_keys_age_seconds", () => keys.ageSeconds);
  const counts = new StoreCount(clock, () => countRelay({ kv, clock, leases, mailbox }));
  const series = new RelaySeries({ clock, metrics, counts });
  metrics.beforeRead(async () => showCounts(metrics, await counts.current(), clock));
  metrics.read("store_reserve_bytes", () => reserve.space?.reserveBytes ?? null);
  const { judgeAccess } = externals;
  const aits = new AitCache(keys, config.registryUrl);
  const deps: ProxyDeps = {
    ...externals,
    config,
    registry,
    access: judgeAccess
      ? (claim) => judgeAccess(claim, { commits, reads }, ACCESS_TOKEN_ENDED)
      : async (claim) => await registry.validate(claim) ? [] : null,
    readsAccess: judgeAccess !== undefined,
    keys,
    crl,
    commits,
    changes,
    reads,
    probe: new StoreProbe({ kv, clock, commits }, KEYS.probe()),
    guard: new BadProofLimiter(clock, owners),
    aits,
    policy,
    issuers,
    visitors,
    windows: windowRules(config),
    standings: new Standings({ aits, keys, crl, reliedMs: externals.reliedMs }),
    senders,
    limiter: new RateLimiter(kv, commits, clock, KEYS.window),
    owners,
    held,
    connectedAgents,
    mailbox,
    mailboxDelivery,
    leases,
    presence,
    returns: new RecipientReturn({ clock, connectedAgents, leases, presence, reads }),
    inbox,
    links,
    forwarder,
    revalidation,
    deliveries,
    refusals,
    series,
    counts,
    reserve,
    onRefused: (code, exchange) => refusals.record(code, exchange),
    showDetails: config.environment !== "production",
  };
  // A fixed time would bring many agents back at a rate that one store and a few instances cannot take.
  const returnMs = () => {
    const least = leases.hasOthers ? RETURN_MS : RETURN_ALONE_MS;
    return Math.max(least, connectedAgents.agents * RETURN_PER_AGENT_MS);
  };
  // After the end of the lease other instances send no message here. The sockets stay open for the messages sent before.
  const leave = async () => {
    links.leave();
    await leases.stop();
    await inbox.stop();
    await Promise.all([forwarder.finish(), mailboxDelivery.finish()]);
    // Another instance may have read the lease before its end, and committed after this read.
    await inbox.catchUp();
    await forwarder.finish();
    await leases.leave();
    links.stop();
  };
  return {
    ...createApp(PROXY_ROUTES, AUTHENTICATORS, deps),
    deps,
    async start({ isSole = false, address } = {}) {
      if (address !== undefined) leases.link = { at: address, key: toBase64Url(random.bytes(32)) };
      crl.start();
      mailboxDelivery.start();
      revalidation.start();
      sweeper.start();
      series.start();
      await Promise.all([trustChanges.start(), leases.start({ isSole })]);
      inbox.start();
    },
    async leave() {
      await leases.beginLeaving();
      // Messages that reach this instance meanwhile still find the agents where they return.
      await connectedAgents.closeInWaves({ withinMs: LIMITS.stopNoticeMs / 2, returnMs: returnMs() });
    },
    closeSockets: () => connectedAgents.closeAll(returnMs()),
    async stop(withinMs = LIMITS.noteDrainMs) {
      for (const part of [crl, mailboxDelivery, revalidation, trustChanges, pairRemoval, sweeper, series]) part.stop();
      // The requests have ended, so no outcome of a message is added.
      await settledWithin(clock, Promise.all([leave(), commits.flush()]), Math.min(withinMs, LIMITS.noteDrainMs));
    },
  };
}

function showCounts(metrics: Metrics, { agents, queues }: RelayCounts, clock: Clock): void {
  metrics.set("agents_offline_1d", agents.offlineOver1d);
  metrics.set("mailbox_messages", queues.messages);
  metrics.set("mailbox_recipients", queues.recipients);
  metrics.set("mailbox_fullest_ratio", queues.fullest);
  const { oldestAt } = queues;
  metrics.set("mailbox_oldest_seconds", oldestAt === null ? 0 : Math.max(0, clock.now() - oldestAt) / 1000);
}
