/**
 * The agent's credentials for the connector: read from its files, refreshed before they expire (D-89), and read again when
 * another process has changed them. One refresh runs at a time; cli/agents/refresh.ts locks out other processes.
 */
import type { Cancel } from "../../../shared/clock.ts";
import type { AgentAuth } from "../../../shared/protocol/api/sessions.ts";
import type { AgentFolder, AgentStore } from "../../agents/agent_store.ts";
import type { Context } from "../../context.ts";
import { Output } from "../../terminal/output.ts";
import { refreshAgent } from "../../agents/refresh.ts";
import type { RegistryClient } from "../../client/registry_client.ts";
import type { AgentCredentials } from "../../../shared/client/agent_credentials.ts";
import type { AgentIdentity } from "../../../shared/client/signed_headers.ts";
import type { EmitEvent } from "../events.ts";
import { receiptWait } from "../../../shared/client/backoff.ts";
import { CLIENT_LIMITS } from "../../../shared/client/limits.ts";
import { describeError, isPermanent, remedyOf } from "../../../shared/client/refusals.ts";
import type { ServiceClock } from "../../../shared/client/service_clock.ts";

/** 10 s more than D-89 asks for, so that a slow response is still in time. */
const AHEAD_MS = CLIENT_LIMITS.refreshAheadMs + 10_000;
/** Least wait before a refresh, so that tokens with a shorter lifetime do not cause a loop. */
const LEAST_MS = 5_000;

interface SessionDeps {
  ctx: Context;
  clock: ServiceClock;
  store: AgentStore;
  name: string;
  registryOf: (registryUrl: string) => Promise<RegistryClient>;
  tell: EmitEvent;
}

export class FileCredentials implements AgentCredentials {
  readonly #deps: SessionDeps;
  #identity: AgentIdentity;
  #auth: AgentAuth;
  #aitExpiresAt: number;
  #refreshing: Promise<void> | null = null;
  #failures = 0;
  #cancel: Cancel = () => {};
  #stopped = false;
  /** Called when the session has ended permanently. */
  onEnd: (error: unknown) => void = () => {};

  private constructor(deps: SessionDeps, read: Read) {
    this.#deps = deps;
    this.#identity = read.identity;
    this.#auth = read.auth;
    this.#aitExpiresAt = read.aitExpiresAt;
  }

  static async open(deps: SessionDeps): Promise<FileCredentials> {
    return new FileCredentials(deps, await readFiles(await deps.store.open(deps.name)));
  }

  get accessExpiresAt(): number {
    return Date.parse(this.#auth.accessExpiresAt);
  }

  get identityExpiresAt(): number {
    return this.#aitExpiresAt;
  }

  async current(): Promise<AgentIdentity> {
    const { clock } = this.#deps;
    if (this.accessExpiresAt - clock.now() <= LEAST_MS) {
      // The service decides whether the token has expired.
      await this.#refresh().catch((error) => {
        if (isPermanent(error)) throw error;
      });
    }
    return this.#identity;
  }

  async renew(what: "access" | "identity"): Promise<boolean> {
    const { ait, accessToken } = this.#identity;
    await this.#reload();
    if (this.#identity.ait !== ait || this.#identity.accessToken !== accessToken) {
      this.#deps.tell("reloaded");
      return true;
    }
    if (what === "identity") return false;
    await this.#refresh();
    return this.#identity.accessToken !== accessToken;
  }

  /** Refreshes the access token before it expires, from now on. */
  watch(): void {
    this.#cancel();
    if (this.#stopped) return;
    const { clock } = this.#deps;
    const left = this.accessExpiresAt - clock.now() - AHEAD_MS;
    const wait = this.#failures > 0 ? receiptWait(this.#failures) : Math.max(left, LEAST_MS);
    this.#cancel = clock.after(wait, () => void this.#refreshAhead());
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  async #refreshAhead(): Promise<void> {
    try {
      const { refreshToken } = this.#auth;
      await this.#reload();
      // Another process has just refreshed it.
      const isNew = this.#auth.refreshToken !== refreshToken &&
        this.accessExpiresAt - this.#deps.clock.now() > AHEAD_MS;
      if (!isNew) await this.#refresh();
      this.#failures = 0;
    } catch (error) {
      this.#failures++;
      this.#deps.tell("refresh_failed", { why: describeError(error) });
      if (isPermanent(error)) return this.onEnd(error);
    }
    this.watch();
  }

  #refresh(): Promise<void> {
    this.#refreshing ??= this.#refreshNow().finally(() => this.#refreshing = null);
    return this.#refreshing;
  }

  async #refreshNow(): Promise<void> {
    const { ctx, clock, store, name, registryOf, tell } = this.#deps;
    // The connector owns the terminal, so the progress of a refresh is not printed.
    const out = new Output(ctx.terminal, clock, { json: true, colour: false });
    const ask = () => refreshAgent({ ...ctx, clock, out }, store, name, registryOf);
    let refreshed;
    try {
      refreshed = await ask();
    } catch (error) {
      if (remedyOf(error) !== "adjust_clock" || !clock.adopt()) throw error;
      tell("clock_offset", { offsetMs: clock.offsetMs });
      refreshed = await ask();
    }
    this.#auth = refreshed.auth;
    this.#identity = { ...this.#identity, accessToken: refreshed.auth.accessToken };
    tell("refreshed", { until: refreshed.auth.accessExpiresAt });
    this.watch();
  }

  async #reload(): Promise<void> {
    const { store, name } = this.#deps;
    const { identity, auth, aitExpiresAt } = await readFiles(await store.open(name));
    this.#identity = identity;
    this.#auth = auth;
    this.#aitExpiresAt = aitExpiresAt;
  }
}

interface Read {
  identity: AgentIdentity;
  auth: AgentAuth;
  aitExpiresAt: number;
}

async function readFiles(folder: AgentFolder): Promise<Read> {
  const { did, expiresAt } = folder.identity();
  const auth = folder.auth();
  const { privateKey } = await folder.keys();
  return {
    identity: { did, ait: folder.ait(), privateKey, accessToken: auth.accessToken },
    auth,
    aitExpiresAt: Date.parse(expiresAt),
  };
}
