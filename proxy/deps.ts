/** Builds the proxy's dependencies. Only `app.ts` and `routes.ts` import it, because a type this wide couples files. */
import type { Clock } from "../shared/clock.ts";
import type { ErrorCode } from "../shared/protocol/errors.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import type { CheckAccessToken } from "../shared/server/store/preconditions.ts";
import type { ServiceDeps } from "../shared/server/http/app.ts";
import type { RequestContext } from "../shared/server/http/route.ts";
import { TrustChanges } from "../shared/server/store/trust_changes.ts";
import { Changes } from "../shared/server/store/changes.ts";
import { GroupCommit } from "../shared/server/store/group_commit.ts";
import { ExpirySweeper } from "../shared/server/store/expiry_sweeper.ts";
import type { Metrics } from "../shared/server/metrics/metrics.ts";
import { BatchedReads } from "../shared/server/store/batched_reads.ts";
import { RateLimiter } from "../shared/server/rate_limit.ts";
import type { DiskSpace } from "../shared/server/machine.ts";
import { SharedCount } from "../shared/server/store/shared_count.ts";
import { StoreReserve } from "../shared/server/store/store_reserve.ts";
import { StoreProbe } from "../shared/server/store/store_probe.ts";
import { countRelay, type RelayCounts } from "./admin/overview.ts";
import { Refusals } from "./admin/refusals.ts";
import { RelaySeries } from "./admin/series.ts";
import { AitCache } from "./admission/ait_cache.ts";
import { ACCESS_TOKEN_ENDED, type CheckDeps, CHECKS, windowRules } from "./admission/checks.ts";
import { CrlCache } from "./admission/crl_cache.ts";
import { BadProofLimiter } from "./admission/bad_proof_limiter.ts";
import { KeyCache } from "./admission/key_cache.ts";
import type { ProxyConfig } from "./config.ts";
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
import type { UpgradeWebSocket } from "../shared/server/http/open_sockets.ts";
import { Deliveries } from "./message/deliveries.ts";
import { LocalDelivery } from "./relay/local_delivery.ts";
import { MessageForwarder } from "./relay/message_forwarder.ts";
import { MailboxDelivery } from "./relay/mailbox_delivery.ts";
import { InFlightBudget } from "./relay/in_flight_budget.ts";
import { ConnectedAgents } from "./relay/connected_agents.ts";
import { Mailbox, retryWait } from "./relay/mailbox.ts";
import { Revalidation } from "./relay/revalidation.ts";
import { SenderStatus } from "./relay/sender_status.ts";
import { PairRemoval } from "./trust/deleted_agents.ts";

export interface ProxyExternals extends ServiceDeps {
  /** Sends a request to the registry: `fetch`, or the `fetch` of the registry app in this process. */
  send: Send;
  /** Checks access tokens without a request to the registry, when both share process and store. */
  judgeAccess?: CheckAccessToken;
  upgrade: UpgradeWebSocket;
  /** Opens a connection to another instance. */
  dial: Dial;
  /** Returns the space of the store's disk, or `null` when this process cannot see it. */
  diskSpace?(): DiskSpace | null;
  /** Sends requests to registries of other servers, and resolves their names. */
  abroad: { send: Send; lookup: Lookup };
  /** Returns the bytes of the store's file; `null` without a file. */
  storeBytes?(): number | null;
  residentBytes?(): number;
}

export type ProxyDeps = ReturnType<typeof buildProxy>["deps"];

/** Returns what the handlers use, and the work in the background that only `app.ts` starts and stops. */
export function buildProxy(externals: ProxyExternals, config: ProxyConfig) {
  const { kv, maxChecks, clock, newId, log, metrics } = externals;
  const registry = new RegistryClient(externals.send, clock, config);
  const keys = new KeyCache(registry, clock, config.registryKeysTtlMs);
  const crl = new CrlCache({ ...externals, registry, keys }, {
    issuer: config.registryUrl,
    seen: { key: KEYS.crlSeen() },
    refreshIntervalMs: config.crlRefreshIntervalMs,
    maxAgeMs: config.crlMaxAgeMs,
  });
  const commits = new GroupCommit(kv, maxChecks, {
    ...externals,
    markKey: KEYS.commitMark(newId()),
    inFlight: externals.commitsInFlight,
  });
  const reads = new BatchedReads(kv);
  const changes = new Changes({ ...externals, reads });
  const owners = new OwnerBudgets(clock, config.ownerRequests);
  const connectedAgents = new ConnectedAgents(clock, newId, config.heartbeatIntervalMs, metrics, owners);
  const reserve = new StoreReserve(externals.diskSpace ?? (() => null), clock, config.storeReserveBytes);
  const mailbox = new Mailbox({ ...externals, commits, reserve, config });
  const senders = new Senders({ kv, reads, clock, random: externals.random, windowMs: config.agentWindowMs });
  const senderStatus = new SenderStatus(registry, clock);
  const pairRemoval = new PairRemoval({ ...externals, changes, mailbox, crl });
  const policy = new IssuerPolicy(config);
  const issuers = new Issuers({
    ...externals,
    ...externals.abroad,
    config,
    onList: (authority, deleted) => void pairRemoval.visitorsListed(authority, deleted),
  });
  const visitors = new Visitors({ kv, clock, policy, issuers, config });
  const mailboxDelivery = new MailboxDelivery({
    ...externals,
    connectedAgents,
    crl,
    senders: senderStatus,
    visitors,
    mailbox,
    config,
  });
  const revalidation = new Revalidation({ ...externals, connectedAgents, crl, registry, config });
  const trustChanges = new TrustChanges(externals, (agentDids, since) => {
    senderStatus.forget(agentDids);
    void revalidation.onTrustChange(agentDids, since);
  });
  const leases = new InstanceLeases(externals);
  const { instance } = leases;
  const inbox = new InstanceInbox({ ...externals, instance });
  // Connects have a queue of their own, because they and slow changes of pairs would otherwise delay each other.
  const presences = new Changes({ ...externals, reads });
  const presence = new PresenceStore({ kv, changes: presences, clock, leases, inbox, connectedAgents });
  const links = new InstanceLinks({ ...externals, leases });
  const attemptMs = config.ackTimeoutMs + LIMITS.wayBackMs;
  const deliveries = new Deliveries({ ...externals, commits, leases, senders, attemptMs });
  const sweeper = new ExpirySweeper(
    { kv, maxChecks, clock, log, isTurn: () => leases.isOldest },
    sweptFamilies(kv, config.receiptKeptMs, instance, (sender) => deliveries.settle(sender)),
  );
  const here = new LocalDelivery({
    ...externals,
    commits,
    deliveries,
    leases,
    connectedAgents,
    mailbox,
    mailboxDelivery,
  });
  const forwarder = new MessageForwarder({
    ...externals,
    commits,
    here,
    leases,
    presence,
    inbox,
    links,
    connectedAgents,
    mailboxDelivery,
    senders,
  });
  here.onQueued = (recipient) => void forwarder.startMailboxDelivery(recipient);
  mailbox.onOutcome = (id, outcome) => void forwarder.tellDelivery(id, outcome);
  connectedAgents.onAttached = (agentDid) => mailboxDelivery.deliverTo(agentDid);
  const release = (agentDid: string, failures: number) => {
    presence.release(agentDid).catch((cause) => {
      log("warn", "presence_failed", { agentDid, cause });
      // Tried again, because the agent's peers would otherwise see it online until this instance ends.
      clock.after(retryWait(failures), () => release(agentDid, failures + 1));
    });
  };
  connectedAgents.onGone = (agentDid) => release(agentDid, 0);
  crl.onInstalled = () => {
    void revalidation.onCrlInstalled();
    void pairRemoval.listed();
  };
  const refusals = new Refusals(clock);
  const held = new InFlightBudget();
  // Prometheus sees no increase in a series that begins with an attack, so the refusals of each check begin at 0.
  for (const [i, { failsWith }] of CHECKS.entries()) {
    for (const code of failsWith) {
      for (const origin of ["local", "foreign"]) metrics.add("refusals_total", 0, code, String(i + 1), origin);
    }
  }
  metrics.read("held_bytes", () => held.total);
  metrics.read("crl_age_seconds", () => crl.ageSeconds);
  metrics.read("crl_entries", () => crl.entries);
  metrics.read("registry_keys_age_seconds", () => keys.ageSeconds);
  const counts = new SharedCount(clock, () => countRelay({ kv, clock, leases, mailbox }));
  const series = new RelaySeries({ clock, metrics, counts });
  metrics.beforeRead(async () => showCounts(metrics, await counts.current(), clock));
  metrics.read("store_reserve_bytes", () => reserve.space?.reserveBytes ?? null);
  const { judgeAccess } = externals;
  const aits = new AitCache(keys, config.registryUrl);
  const access: CheckDeps["access"] = async (claim) => {
    if (judgeAccess) return await judgeAccess(claim, { commits, reads }, ACCESS_TOKEN_ENDED);
    return await registry.validate(claim) ? [] : null;
  };
  const deps = {
    ...externals,
    config,
    registry,
    access,
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
    here,
    revalidation,
    deliveries,
    refusals,
    series,
    counts,
    reserve,
    onRefused: (code: ErrorCode, exchange: RequestContext) => refusals.record(code, exchange),
    showDetails: config.environment !== "production",
  };
  return { deps, pairRemoval, sweeper, trustChanges };
}

function showCounts(metrics: Metrics, { agents, queues }: RelayCounts, clock: Clock): void {
  metrics.set("agents_offline_1d", agents.offlineOver1d);
  metrics.set("mailbox_messages", queues.messages);
  metrics.set("mailbox_recipients", queues.recipients);
  metrics.set("mailbox_fullest_ratio", queues.fullest);
  const { oldestAt } = queues;
  metrics.set("mailbox_oldest_seconds", oldestAt === null ? 0 : Math.max(0, clock.now() - oldestAt) / 1000);
}
