/**
 * Receives the requests of a process and passes each to its service. It lets requests wait until the services are
 * ready, counts those under way, refuses new ones while the process stops, and answers for the process itself.
 */
import { type App, type AppDeps, recordResponse, requestContextOf, requestIdOf, routedPath } from "./app.ts";
import { leaveBody } from "./body.ts";
import type { Peer } from "./client_ip.ts";
import { livenessAnswer, readinessAnswer } from "./probes.ts";
import { toResponse } from "./response.ts";
import { type Answer, json } from "./route.ts";
import { errorEnvelope, ServiceError } from "../../protocol/errors.ts";

type EntryDeps = Pick<AppDeps, "clock" | "newId" | "log" | "metrics" | "trustedProxies" | "accessLog">;

/** The services of a process, of which there is at least one. */
export interface Served {
  registry: App | null;
  proxy: App | null;
  isReady(): Promise<boolean>;
  /** Returns the IDs of the instances to which this one should have a link but has none. */
  linksMissing?(): readonly string[];
  /** Returns the answer of `/health` for both services; `null` when one runs alone, because that answers itself. */
  health: (() => Promise<Answer>) | null;
}

export class Entry {
  /** Resolves to the services, or to `null` if they did not start. */
  readonly #opened = Promise.withResolvers<Served | null>();
  /** The service of each fixed path, when both services run. */
  readonly #serviceOf = new Map<string, App>();
  #served: Served | null = null;
  #isLeaving = false;
  #draining = false;
  /** The latest time of an answer, milliseconds since the Unix epoch. */
  #newest = 0;
  underWay = 0;

  constructor(private readonly deps: EntryDeps) {
    deps.metrics.read("http_requests_in_flight", () => this.underWay);
  }

  /** Passes requests to the services from now on, including those that have waited. */
  open(served: Served): void {
    this.#served = served;
    const { registry, proxy } = served;
    if (registry && proxy) {
      for (const path of [...registry.fixedPaths, ...proxy.fixedPaths]) {
        this.#serviceOf.set(path, ownerOf(path, registry, proxy));
      }
    }
    this.#opened.resolve(served);
  }

  /** Reports from now on that this process is not ready, but still serves requests. */
  leave(): void {
    this.#isLeaving = true;
  }

  /** Refuses requests from now on. */
  drain(): void {
    this.#isLeaving = this.#draining = true;
  }

  /** Refuses even requests that wait for the services, because they would otherwise keep a failed start from ending. */
  giveUp(): void {
    this.drain();
    this.#opened.resolve(null);
  }

  /** Tells whether each service of this process accepts requests. */
  async isReady(): Promise<boolean> {
    return !this.#isLeaving && this.#served !== null && await this.#served.isReady();
  }

  /** Returns the answer of `/readyz`, which the listener of the metrics gives too. */
  async readiness(): Promise<Answer> {
    return readinessAnswer(await this.isReady(), this.#served?.linksMissing?.());
  }

  async answer(request: Request, peer: Peer): Promise<Response> {
    const { log, clock } = this.deps;
    const own = this.#isLeaving ? await this.#ownResponse(request, peer, routedPath(request), null) : null;
    if (own) return this.#dated(own);
    if (this.#draining) return this.#dated(this.#refusal(request));
    this.underWay++;
    try {
      const served = this.#served ?? await this.#opened.promise;
      const response = served ? await this.#dispatch(request, peer, served) : this.#refusal(request);
      // A client that keeps its connection would otherwise send the next request here too, which may be refused.
      if (this.#isLeaving && response.status !== 101) response.headers.set("Connection", "close");
      return this.#dated(response);
    } catch (cause) {
      log("error", "request_failed", { cause });
      return this.#dated(this.#refusal(request, true));
    } finally {
      this.underWay--;
      void leaveBody(request, clock);
    }
  }

  /**
   * Adds the time of this server once its clock was set back. The `Date` that the platform adds then stays at the latest
   * time, and clients that correct their time by it would be refused for as long as that step.
   */
  #dated(response: Response): Response {
    const now = this.deps.clock.now();
    if (now < this.#newest) response.headers.set("Date", new Date(now).toUTCString());
    else this.#newest = now;
    return response;
  }

  /** Returns the response to a request that no service handles. It also ends the connection. */
  #refusal(request: Request, hasFailed = false): Response {
    const stopping = this.#served?.proxy ? "PROXY_RELAY_UNAVAILABLE" : "SERVICE_UNAVAILABLE";
    const error = new ServiceError(hasFailed ? "INTERNAL_ERROR" : stopping);
    const requestId = requestIdOf(request, this.deps.newId);
    const headers = { "Retry-After": "1", Connection: "close", "x-request-id": requestId };
    return toResponse(json(errorEnvelope(error, false), error.status, headers));
  }

  /** Waits only for the answers of this process, because each wait costs a message about half a microsecond. */
  #dispatch(request: Request, peer: Peer, { registry, proxy, health }: Served): Promise<Response> {
    if (!registry || !proxy) return (registry ?? proxy as App).fetch(request, peer);
    const path = routedPath(request);
    const pass = () => (this.#serviceOf.get(path) ?? ownerOf(path, registry, proxy)).fetch(request, peer, path);
    if (!OWN_PATHS.has(path)) return pass();
    return this.#ownResponse(request, peer, path, health).then((own) => own ?? pass());
  }

  /** Answers `/healthz` and `/readyz`, even while the process stops, and `/health` for both services. */
  async #ownResponse(
    request: Request,
    peer: Peer,
    path: string,
    health: Served["health"],
  ): Promise<Response | null> {
    const { method } = request, { deps } = this;
    if (method !== "GET" && method !== "HEAD") return null;
    const began = deps.clock.now();
    let answer: Answer | undefined;
    if (path === "/healthz") answer = livenessAnswer();
    else if (path === "/readyz") answer = await this.readiness();
    else if (path === "/health") answer = await health?.();
    if (!answer) return null;
    const exchange = requestContextOf(deps, request, peer);
    exchange.route = path;
    recordResponse(deps, exchange, answer.status, deps.clock.now() - began);
    const headers = { ...answer.headers, "x-request-id": exchange.requestId };
    return toResponse(answer, { headers, isHead: method === "HEAD" });
  }
}

/** The paths at which the process answers itself. */
const OWN_PATHS: ReadonlySet<string> = new Set(["/healthz", "/readyz", "/health"]);

/** Returns the service of a path. Both services have the pages of the API, and each shows the routes of both there. */
function ownerOf(path: string, registry: App, proxy: App): App {
  return registry.owns(path) ? registry : proxy;
}
