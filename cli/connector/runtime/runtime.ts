/**
 * Requests to the agent runtime. They go only to the configured origin, because a peer could otherwise
 * make this machine call any address. The meaning of a response is in delivery_rules.ts.
 */
import { unixSeconds } from "../../../shared/protocol/time.ts";
import type { PushPlatform, RuntimeRequest, RuntimeTarget, TaskProtocol } from "../../platforms/platform.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import { OTHER_USER } from "../../../shared/client/port_owner.ts";
import { exchange, ExchangeError, type HttpRequest, wholeSeconds } from "../../../shared/client/http.ts";
import { isLoopback, parseServiceUrl } from "../../../shared/client/service_url.ts";
import { unreachable } from "../../../shared/client/tls.ts";
import type { RuntimeAnswer } from "./delivery_rules.ts";
import { idempotencyKey, type InboxMessage } from "../store/received_rows.ts";
import { CONNECTOR_LIMITS } from "../limits.ts";

/** Time-outs of a look at a task and of a health check. With more, a stuck runtime is noticed late. */
const TASK_POLL_TIMEOUT_MS = 10_000, PROBE_TIMEOUT_MS = 5_000;

type RuntimeDeps = Pick<Context, "fetch" | "clock" | "reach" | "isOfOtherUser">;

/** The problem of a runtime whose port a process of another user has. */
export const OF_OTHER_USER = `${OTHER_USER}: a process of another user listens at its address`;
/** The problem of a runtime that starts or stops. */
export const NOT_READY = "it is not ready";
const MAX_HEALTH_BYTES = 64 * 1024;

export class Runtime {
  constructor(readonly deps: RuntimeDeps, readonly platform: PushPlatform, readonly target: RuntimeTarget) {}

  get url(): string {
    return this.target.baseUrl + this.target.hookPath;
  }

  /**
   * Sends a message to the runtime. Reads only status and headers of the answer, and with `maxBytes` a 2xx body.
   *
   * @param taskId ID of the task that asked for the message (D-134)
   */
  async post(message: InboxMessage, stopped: AbortSignal, maxBytes = 0, taskId?: string): Promise<RuntimeAnswer> {
    const request = await this.platform.request(
      { ...message, idempotencyKey: await idempotencyKey(message), taskId },
      this.target,
      unixSeconds(this.deps.clock.now()),
    );
    return await this.#post(request, { timeoutMs: this.platform.timeoutMs, maxBytes, signal: stopped });
  }

  async poll(tasks: TaskProtocol, taskId: string, signal: AbortSignal): Promise<RuntimeAnswer> {
    const maxBytes = CONNECTOR_LIMITS.taskAnswerBytes;
    return await this.#post(tasks.poll(taskId, this.target), { timeoutMs: TASK_POLL_TIMEOUT_MS, maxBytes, signal });
  }

  async #post(
    request: RuntimeRequest,
    { maxBytes, ...rest }: { timeoutMs: number; maxBytes: number; signal: AbortSignal },
  ): Promise<RuntimeAnswer> {
    return await this.#ask({
      ...request,
      ...rest,
      method: "POST",
      url: this.url,
      maxBytes: (status) => status >= 200 && status < 300 ? maxBytes : 0,
      // The status says whether the runtime has accepted the message, also when its answer breaks off.
      cutsBrokenBody: true,
    });
  }

  /** Why the runtime does not answer, as a health check shows it; `null` when it does. */
  async problem(stopped: AbortSignal = new AbortController().signal): Promise<string | null> {
    const { health } = this.platform;
    if (health === null) {
      if (await this.#isOfOtherUser()) return OF_OTHER_USER;
      return await this.deps.reach?.(this.target.baseUrl) ?? true ? null : "it does not accept connections";
    }
    const response = await this.#ask({
      method: "GET",
      url: this.target.baseUrl + health.path,
      timeoutMs: PROBE_TIMEOUT_MS,
      maxBytes: MAX_HEALTH_BYTES,
      signal: stopped,
    });
    if (response.kind === "timeout") return "it does not answer";
    if (response.kind === "unreachable") return response.why;
    if (health.isHealthy(response.status, response.text)) return null;
    if (response.status === 503) return `${NOT_READY}: ${health.path} answered 503`;
    return `${health.path} answered ${response.status}, not as ${this.platform.name} does`;
  }

  /** Calls at the same time share one check, because each check starts a process. */
  async #isOfOtherUser(): Promise<boolean> {
    this.#look ??= this.deps.isOfOtherUser?.(this.target.baseUrl).finally(() => this.#look = undefined);
    return await this.#look ?? false;
  }
  #look: Promise<boolean> | undefined;

  async #ask(request: Omit<HttpRequest, "onTooLarge">): Promise<RuntimeAnswer> {
    // The message waits as if the runtime was down, because another program can have its port only then.
    if (await this.#isOfOtherUser()) return { kind: "unreachable", why: OF_OTHER_USER };
    try {
      const { fetch, clock, reach } = this.deps;
      const exchanged = await exchange({ fetch, clock, reach }, { ...request, onTooLarge: "truncate" });
      const { status, headers, text, cut = null } = exchanged;
      const retryAfterMs = (wholeSeconds(headers.get("Retry-After")) ?? 0) * 1000;
      return { kind: "status", status, retryAfterMs, text, cut };
    } catch (error) {
      if (!(error instanceof ExchangeError)) throw error;
      if (error.reason === "timeout") return { kind: "timeout" };
      if (error.reason === "aborted") return { kind: "unreachable", why: "the connector is stopping" };
      const { code, message, brokeOff } = unreachable(this.target.baseUrl, error.message, error.cause);
      if (brokeOff) return { kind: "unreachable", why: "the connection ended before the answer", brokeOff };
      return { kind: "unreachable", why: code === "CLI_TLS_REFUSED" ? message : "no connection" };
    }
  }
}

export function describeAnswer(response: RuntimeAnswer): string {
  if (response.kind === "timeout") return "no answer in time";
  return response.kind === "unreachable" ? response.why : `status ${response.status}`;
}

/**
 * Parses the address of the runtime. An address on another machine needs an explicit option, because messages and hook
 * token would otherwise leave this machine unnoticed.
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_INSECURE_URL`
 */
export function parseRuntimeUrl(text: string, what: string, { allowInsecure = false } = {}): string {
  const origin = parseServiceUrl(text);
  if (origin === null) {
    throw new CliError("CLI_USAGE", `${what} is not an address such as http://127.0.0.1:18789: "${text}"`);
  }
  if (!allowInsecure && !isLoopback(origin)) {
    const why = `${what} is ${origin}, another machine: messages and the hook token go there`;
    // Not the usual advice, because https does not help here.
    const fix = "Add --allow-insecure if messages may leave this machine, or name a runtime of this machine.";
    throw new CliError("CLI_INSECURE_URL", why, { fix });
  }
  return origin;
}

/** Checks the path of the webhook. @throws {CliError} `CLI_USAGE` for anything but a plain path */
export function parseHookPath(text: string, what: string): string {
  const isPath = /^\/(?!\/)[A-Za-z0-9._~!$&'()*+,;=:@%\/-]*$/.test(text);
  if (isPath && new URL(text, "http://127.0.0.1").pathname === text) return text;
  throw new CliError("CLI_USAGE", `${what} is not a path such as /hooks/agent: "${text}"`);
}

/**
 * Checks the hook token. The error does not quote it, because a reader of a log could otherwise send as svc.
 * @throws {CliError} `CLI_USAGE` when the token does not fit into a header
 */
export function parseHookToken(text: string, what: string): string {
  if (/^[\x21-\x7e]{1,1024}$/.test(text)) return text;
  throw new CliError("CLI_USAGE", `${what} must be one word of visible ASCII characters`);
}
