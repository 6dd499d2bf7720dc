/** Creates the proxy: builds its parts from external dependencies and mounts the route table. */
import { settledWithin } from "../shared/clock.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import type { CheckAccessToken } from "../shared/server/store/access_check.ts";
import { type App, createApp, type ServiceDeps } from "../shared/server/http/app.ts";
import { TrustChanges } from "../shared/server/store/trust_changes.ts";
import { GroupCommit } from "../shared/server/store/group_commit.ts";
import { ExpirySweeper } from "../shared/server/store/expiry_sweeper.ts";
import { Nonces } from "../shared/server/nonces.ts";
import { BatchedReads } from "../shared/server/store/batched_reads.ts";
import { RateLimiter } from "../shared/server/rate_limit.ts";
import { StoreProbe } from "../shared/server/store/store_probe.ts";
import { Refusals } from "./admin/refusals.ts";
import { AitCache } from "./admission/ait_cache.ts";
import { ACCESS_TOKEN_ENDED } from "./admission/checks.ts";
import { CrlCache } from "./admission/crl_cache.ts";
import { BadProofLimiter } from "./admission/bad_proof_limiter.ts";
import { KeyCache } from "./admission/key_cache.ts";
import { Senders } from "./admission/senders.ts";
import type { ProxyConfig } from "./config.ts";
import type { ProxyDeps } from "./deps.ts";
import { KEYS } from "./schema/kv_keys.ts";
import { sweptFamilies } from "./schema/swept_families.ts";
import { RegistryClient, type Send } from "./registry_client.ts";
import { InstanceInbox } from "./relay/instance_inbox.ts";
import { PresenceStore } from "./relay/presence.ts";
import { ClosedSocketBytes, type UpgradeWebSocket } from "./relay/connect.ts";
import { Deliveries } from "./relay/deliveries.ts";
import { MessageForwarder } from "./relay/message_forwarder.ts";
import { MailboxDelivery } from "./relay/mailbox_delivery.ts";
import { InFlightBudget } from "./relay/in_flight_budget.ts";
import { ConnectedAgents } from "./relay/connected_agents.ts";
import { Mailbox } from "./relay/mailbox.ts";
import { Revalidation } from "./relay/revalidation.ts";
import { SenderStatus } from "./relay/sender_status.ts";
import { AUTHENTICATORS, PROXY_ROUTES } from "./routes.ts";
import { PairRemoval } from "./trust/pair_removal.ts";

/** External dependencies of the proxy. */
export interface ProxyExternals extends ServiceDeps {
  /** Sends a request to the registry: `fetch`, or the `fetch` of the registry app in this process. */
  send: Send;
  /** Checks access tokens without a request to the registry, when both share process and store (D-63). */
  judgeAccess?: CheckAccessToken;
  upgrade: UpgradeWebSocket;
}

/** A running proxy. */
export interface Proxy extends App {
  deps: ProxyDeps;
  /** Starts the background work. `isSole` means that no other process uses the store. */
  start(isSole?: boolean): Promise<void>;
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
  const hub = new ConnectedAgents(clock, newId, config.heartbeatIntervalMs, metrics);
  const mailbox = new Mailbox({ kv, clock, commits, metrics }, config.mailboxTtlSeconds, config.receiptKeptMs);
  const senders = new SenderStatus(registry, clock);
  const drain = new MailboxDelivery({
    kv,
    clock,
    log,
    metrics,
    hub,
    crl,
    senders,
    mailbox,
    ackTimeoutMs: config.ackTimeoutMs,
  });
  const revalidation = new Revalidation({
    clock,
    log,
    metrics,
    hub,
    crl,
    registry,
    intervalMs: config.sessionRevalidateMs,
  });
  const trustChanges = new TrustChanges(externals, (agentDids, since) => {
    senders.forget(agentDids);
    void revalidation.onTrustChange(agentDids, since);
  });
  const presence = new PresenceStore({ kv, clock, random, newId, log, metrics });
  const { instance } = presence;
  const inbox = new InstanceInbox({ kv, clock, newId, log, instance });
  const deliveries = new Deliveries({
    clock,
    commits,
    log,
    instance,
    attemptMs: config.ackTimeoutMs + LIMITS.wayBackMs,
    windowMs: config.agentWindowMs,
  });
  const sweeper = new ExpirySweeper(
    { kv, maxChecks, clock, log, instance, leaseKey: KEYS.sweep() },
    sweptFamilies(kv, {
      receiptKeptMs: config.receiptKeptMs,
      instance,
      settle: (sender) => deliveries.settle(sender),
    }),
  );
  const dispatch = new MessageForwarder({
    kv,
    clock,
    log,
    metrics,
    newId,
    commits,
    presence,
    inbox,
    hub,
    drain,
    mailbox,
  });
  hub.onAttached = (agentDid) => {
    void dispatch.attached(agentDid).catch((cause) => log("warn", "presence_failed", { agentDid, cause }));
    drain.deliverTo(agentDid);
  };
  hub.onGone = (agentDid) => {
    const isHere = () => hub.session(agentDid) !== undefined;
    void presence.release(agentDid, isHere).catch((cause) => log("warn", "presence_failed", { agentDid, cause }));
  };
  const pairRemoval = new PairRemoval({ kv, clock, random, log, crl, maxChecks });
  crl.onInstalled = () => {
    void revalidation.onCrlInstalled();
    void pairRemoval.listed();
  };
  const refusals = new Refusals(clock);
  const held = new InFlightBudget();
  metrics.read("held_bytes", () => held.total);
  metrics.read("crl_age_seconds", () => crl.ageSeconds);
  metrics.read("crl_entries", () => crl.entries);
  metrics.read("registry_keys_age_seconds", () => keys.ageSeconds);
  const { judgeAccess } = externals;
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
    reads,
    probe: new StoreProbe({ kv, clock, commits }, KEYS.probe()),
    guard: new BadProofLimiter(clock),
    aits: new AitCache(keys, config.registryUrl),
    nonces: new Nonces(clock),
    senders: new Senders({ kv, clock, windowMs: config.agentWindowMs }),
    limiter: new RateLimiter(kv, commits, clock, KEYS.window),
    held,
    hub,
    mailbox,
    drain,
    presence,
    inbox,
    dispatch,
    revalidation,
    lingering: new ClosedSocketBytes(),
    deliveries,
    refusals,
    onRefused: (code, exchange) => refusals.record(code, exchange),
    showDetails: config.environment !== "production",
  };
  // After the end of the lease other instances send no message here. The sockets stay open for the messages sent before.
  const leave = async () => {
    await presence.stop();
    await inbox.stop();
    await Promise.all([dispatch.finish(), drain.finish()]);
    // Another instance may have read the lease before its end, and committed after this read.
    await inbox.catchUp();
    await dispatch.finish();
    await presence.leave();
  };
  return {
    ...createApp(PROXY_ROUTES, AUTHENTICATORS, deps),
    deps,
    async start(isSole = false) {
      crl.start();
      drain.start();
      revalidation.start();
      sweeper.start();
      await Promise.all([trustChanges.start(), presence.start(isSole)]);
      inbox.start();
    },
    async stop(withinMs = LIMITS.noteDrainMs) {
      for (const part of [crl, drain, revalidation, trustChanges, pairRemoval, sweeper]) part.stop();
      // The requests have ended, so no outcome of a message is added (D-260).
      await settledWithin(clock, Promise.all([leave(), commits.flush()]), Math.min(withinMs, LIMITS.noteDrainMs));
    },
  };
}
