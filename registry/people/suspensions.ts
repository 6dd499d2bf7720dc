/**
 * Suspends and restores people. One commit changes the human; the sessions of the person's agents follow in steps, four
 * per commit. Each commit stores how far it got, so that a restarted registry resumes there, and checks that place
 * first, because several instances may work on the same person.
 */
import type { KvKey } from "../../shared/server/kv.ts";
import { audit } from "../audit/record.ts";
import type { Asker } from "../callers.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { HumanRecord, SessionRecord, SuspensionRecord } from "../schema/records.ts";
import { sessionFor } from "../sessions/session_rules.ts";
import { keptFor } from "../sessions/store.ts";
import type { RegistryStore } from "../store_deps.ts";
import { settledWithin, sleep } from "../../shared/clock.ts";
import { formatDid } from "../../shared/protocol/did.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { fraction } from "../../shared/random.ts";
import type { Log } from "../../shared/server/log.ts";
import { readAll } from "../../shared/server/store/batched_reads.ts";
import { aboveCursor } from "../../shared/server/store/pages.ts";
import { announceTrustChange } from "../../shared/server/store/trust_changes.ts";

/**
 * How long a request waits until the sessions are changed. With more, its client gives up. Sessions that are left then
 * are changed in the background.
 */
const SESSIONS_WAIT_MS = 5_000;
/**
 * Pause after a failure of the store. With less, a store that does not answer gets more calls; with more, sessions of a
 * suspended person stay valid for longer after the store works again.
 */
const RETRY_MS = 1_000;
/** Sessions that are read at once. With more, one suspension takes the time of other requests. */
const SESSIONS_READ = 100;
/** Sessions changed in one commit. Each adds a check to the two of the commit, and KV Connect refuses more than ten. */
const SESSIONS_PER_COMMIT = 4;

interface SuspensionRequest {
  wanted: HumanRecord["status"];
  by: Asker;
  reason: string | undefined;
}

export class Suspensions {
  readonly #stopped = new AbortController();
  /** By person, the work that is under way. */
  readonly #underWay = new Map<string, Promise<boolean>>();

  constructor(private readonly deps: RegistryStore & { log: Log }) {}

  /**
   * Suspends or restores a person, and waits up to 5 s for the sessions of their agents. If some are left then,
   * `complete` is false and the work goes on. A person who is already in the wanted state stays unchanged, but a
   * reason is in the audit log.
   *
   * @throws {ServiceError} `PERSON_NOT_FOUND`, `ADMIN_SUSPEND_FORBIDDEN`
   */
  async change(id: string, request: SuspensionRequest): Promise<{ human: HumanRecord; complete: boolean }> {
    const human = await this.#decide(id, request);
    const work = this.#work(id);
    const complete = await settledWithin(this.deps.clock, work, SESSIONS_WAIT_MS) && await work;
    return { human, complete };
  }

  /**
   * Finishes suspensions that this registry, before its last stop, or another instance did not finish. Never rejects.
   */
  async resume(): Promise<void> {
    const { kv, clock, log } = this.deps;
    while (!this.#stopped.signal.aborted) {
      try {
        for await (const { key } of kv.list({ prefix: KEYS.suspensions() })) await this.#work(String(key.at(-1)));
        return;
      } catch (cause) {
        if (this.#stopped.signal.aborted) return;
        log("warn", "suspensions_unread", { cause });
        await sleep(clock, RETRY_MS, this.#stopped.signal);
      }
    }
  }

  /** Ends the work; the next start resumes it. */
  stop(): void {
    this.#stopped.abort();
  }

  async #decide(id: string, { wanted, by, reason }: SuspensionRequest): Promise<HumanRecord> {
    const { changes, clock, metrics } = this.deps;
    let isChange = false;
    const decided = await changes.run(async (draft) => {
      isChange = false;
      const [entry, job] = await Promise.all([
        draft.get<HumanRecord>(KEYS.human(id)),
        draft.get<SuspensionRecord>(KEYS.suspension(id)),
      ]);
      if (entry.value === null) throw new ServiceError("PERSON_NOT_FOUND");
      if (wanted === "suspended" && entry.value.role === "admin") throw new ServiceError("ADMIN_SUSPEND_FORBIDDEN");
      const event = wanted === "suspended" ? "person.suspended" : "person.restored";
      if (entry.value.status === wanted) {
        // The admin who gives another reason would otherwise look for it in the audit log in vain.
        if (reason !== undefined) await audit(draft, this.deps, by, event, entry.value.did, reason);
        return entry.value;
      }
      const { suspendedAt: _, ...rest } = entry.value;
      const human: HumanRecord = wanted === "active"
        ? { ...rest, status: wanted }
        : { ...rest, status: wanted, suspendedAt: toIso(clock.now()) };
      const begun: SuspensionRecord = { wanted, cursor: null };
      draft.set(entry.key, human);
      draft.set(job.key, begun);
      await audit(draft, this.deps, by, event, human.did, reason);
      isChange = true;
      return human;
    });
    if (isChange && wanted === "suspended") metrics?.count("people_suspended_total");
    return decided;
  }

  /**
   * Works on one person, after any work on them that is under way. Side by side, each would read again what the other
   * has changed, and while a commit fails, each repeated request would add one that tries it every second.
   */
  async #work(id: string): Promise<boolean> {
    while (this.#underWay.has(id)) await this.#underWay.get(id);
    const work = this.#finish(id).finally(() => this.#underWay.delete(id));
    this.#underWay.set(id, work);
    return await work;
  }

  /**
   * Changes the sessions of one person until none is left. Two instances may do so at once, because each commit checks
   * how far the work got. Resolves to false when the registry stops first.
   */
  async #finish(id: string): Promise<boolean> {
    const { clock, log, random } = this.deps;
    const { signal } = this.#stopped;
    for (let conflicts = 0; !signal.aborted;) {
      try {
        const outcome = await this.#step(id);
        if (outcome === "done") return true;
        conflicts = outcome === "conflict" ? conflicts + 1 : 0;
        if (conflicts > 2) await sleep(clock, fraction(random) * 2 ** Math.min(conflicts, 7), signal);
      } catch (cause) {
        if (signal.aborted) return false;
        log("warn", "suspension_failed", { humanId: id, cause });
        await sleep(clock, RETRY_MS, signal);
      }
    }
    return false;
  }

  /** Changes the sessions of the next agents of the person, at most 100. */
  async #step(id: string): Promise<"done" | "moved" | "conflict"> {
    const { kv, clock, authority } = this.deps;
    const [human, job] = await kv.getMany<[HumanRecord, SuspensionRecord]>([KEYS.human(id), KEYS.suspension(id)]);
    if (job.value === null) return "done";
    const { wanted, cursor } = job.value;
    const agentIds = await this.#agentsAfter(id, cursor);
    const changed = await this.#changed(agentIds, wanted);
    const isLast = agentIds.length < SESSIONS_READ;
    let place: { key: KvKey; versionstamp: string | null } = job;
    do {
      const four = changed.splice(0, SESSIONS_PER_COMMIT);
      const operation = kv.atomic().check(human).check(place);
      for (const { entry, next } of four) {
        operation.check(entry).set(entry.key, next, keptFor(this.deps, next));
      }
      const dids = four.map(({ agentId: id }) => formatDid({ authority, kind: "agent", id }));
      if (four.length > 0) announceTrustChange(operation, clock.now(), dids);
      const reached = (changed.length > 0 ? four.at(-1)?.agentId : agentIds.at(-1)) ?? cursor;
      if (isLast && changed.length === 0) operation.delete(job.key);
      else operation.set(job.key, { wanted, cursor: reached } satisfies SuspensionRecord);
      const result = await operation.commit();
      if (!result.ok) return "conflict";
      place = { key: job.key, versionstamp: result.versionstamp };
    } while (changed.length > 0 && !this.#stopped.signal.aborted);
    return isLast && changed.length === 0 ? "done" : "moved";
  }

  async #agentsAfter(id: string, cursor: string | null): Promise<string[]> {
    const index = this.deps.kv.list(aboveCursor(KEYS.agentsOf(id), cursor ?? undefined), { limit: SESSIONS_READ });
    return (await Array.fromAsync(index)).map(({ key }) => String(key.at(-1)));
  }

  async #changed(agentIds: readonly string[], wanted: HumanRecord["status"]) {
    const { clock, kv } = this.deps;
    const entries = await readAll<SessionRecord>(kv, agentIds.map((id) => KEYS.session(id)));
    return entries.flatMap((entry, i) => {
      const next = sessionFor(wanted, entry.value, clock.now());
      return next === null ? [] : [{ agentId: agentIds[i] ?? "", entry, next }];
    });
  }
}
