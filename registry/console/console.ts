/**
 * The operator's console: web pages for an admin. They call the same functions as the admin's routes, because a second
 * set of rules would sooner or later differ from the first.
 */
import { agentPage, agentsPage, askEnd, askRevoke } from "./agent_pages.ts";
import { auditFile, auditPage } from "./audit_page.ts";
import { deliveriesPage } from "./delivery_page.ts";
import { confirmed, type ConsoleDeps, type ConsoleRow, orNotThere } from "./frame.ts";
import { askDelete, invitesPage, newInvite } from "./invite_pages.ts";
import { limitsPage } from "./limits_page.ts";
import { overviewPage } from "./overview_page.ts";
import { askSuspend, peoplePage, personPage, restore } from "./people_pages.ts";
import { queuesPage } from "./queue_page.ts";
import { createConsoleCode, endConsoleSession, findConsoleSession, takeConsoleCode } from "./sessions.ts";
import type { Asker, WithBody } from "../callers.ts";
import type { RegistryConfig } from "../config.ts";
import type { RegistryStore } from "../store_deps.ts";
import { type PageAnswer, plainPage } from "../../shared/page/document.ts";
import { markup } from "../../shared/page/html.ts";
import { isPagePath, pageApp } from "../../shared/page/page_app.ts";
import type { ConsoleCode } from "../../shared/protocol/api/admin.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type AppDeps, recordResponse, requestContextOf, responseOf } from "../../shared/server/http/app.ts";
import { readBody } from "../../shared/server/http/body.ts";
import { type Peer, unmapped } from "../../shared/server/http/client_ip.ts";
import { isLoopbackHost } from "../../shared/server/http/listen_address.ts";
import { type Answer, json, type RequestContext } from "../../shared/server/http/route.ts";
import { reasonText, StoreUnavailable } from "../../shared/server/store/store_errors.ts";

const ROOT = "/console", OPEN = "/console/open";
const COMMAND = "svc admin open";
/**
 * Most requests of one person in a minute. With more, a program with a person's session could keep the store busy; with
 * less, clicks and the refreshes of open pages would be refused.
 */
const REQUESTS = { name: "console", requests: 600, windowMs: LIMITS.limitWindowMs };
/** Live pages get a new version after this time, because the console is not told when its data changes. */
const LOOK_MS = 10_000;
const PAGES: readonly ConsoleRow[] = [
  { method: "GET", path: "overview", live: true, render: overviewPage },
  { method: "GET", path: "people", render: peoplePage },
  { method: "GET", path: "people/:id", render: personPage },
  ...confirmed("people/:id/suspend", "Not done.", askSuspend),
  { method: "POST", path: "people/:id/restore", render: restore },
  { method: "GET", path: "agents", render: agentsPage },
  { method: "GET", path: "agents/:id", render: agentPage },
  ...confirmed("agents/:id/revoke", "Not revoked.", askRevoke),
  ...confirmed("agents/:id/end", "Not ended.", askEnd),
  { method: "GET", path: "deliveries", render: deliveriesPage },
  { method: "GET", path: "queues", live: true, render: queuesPage },
  { method: "GET", path: "invites", render: invitesPage },
  { method: "POST", path: "invites", render: newInvite },
  ...confirmed("invites/:id/delete", "Not taken back.", askDelete),
  { method: "GET", path: "limits", render: limitsPage },
  { method: "GET", path: "audit", render: auditPage },
  { method: "GET", path: "audit.jsonl", render: auditFile },
];
const ROWS = PAGES.map(orNotThere);
const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** Returns why a browser must not use the console of this server, or `null` when it may. */
export function consoleRefusal({ registryUrl, environment }: Pick<RegistryConfig, "registryUrl" | "environment">) {
  const { protocol, hostname } = new URL(registryUrl);
  if (protocol === "https:" || environment === "local" && isLoopbackHost(hostname)) return null;
  return `The address of this server is ${registryUrl}, and on plain http others can read the session. Put a front with https before it, and set REGISTRY_URL to its address.`;
}

/** The route of the codes that open the console. They exist so that an API key is never typed into a browser. */
export async function openConsole(deps: RegistryStore, { caller }: WithBody<undefined>): Promise<Answer> {
  if (!deps.config.console) throw new ServiceError("CONSOLE_OFF");
  const message = consoleRefusal(deps.config);
  if (message !== null) throw new ServiceError("CONSOLE_OFF", { message });
  const { code, expiresAt } = await createConsoleCode(deps, caller);
  return json<ConsoleCode>({ url: `${deps.config.registryUrl}${OPEN}/${code}`, expiresAt: toIso(expiresAt) }, 201);
}

export class Console {
  constructor(readonly deps: ConsoleDeps & AppDeps) {
    deps.metrics.addRoutes([ROOT]);
  }

  owns(path: string): boolean {
    return isPagePath({ root: ROOT, openRoot: OPEN }, path);
  }

  async answer(request: Request, peer: Peer): Promise<Response> {
    const { deps } = this;
    const exchange = requestContextOf(deps, request, peer);
    exchange.route = ROOT;
    const began = deps.clock.now();
    let answer: PageAnswer;
    try {
      answer = await this.#answer(exchange);
    } catch (cause) {
      const isBusy = cause instanceof StoreUnavailable;
      deps.log(isBusy ? "warn" : "error", "console_failed", { requestId: exchange.requestId, cause });
      const { message = "The store does not answer" } = reasonText(cause);
      answer = sorry(
        isBusy ? `${message}. Try again later.` : `Something went wrong. The log has it under ${exchange.requestId}.`,
        isBusy ? 503 : 500,
      );
    }
    recordResponse(deps, exchange, answer.status, deps.clock.now() - began);
    return responseOf(exchange, answer);
  }

  async #answer({ request, peer, requestId, ip }: RequestContext): Promise<PageAnswer> {
    const { deps } = this, { clock, random, config } = deps;
    const { origin, host, protocol } = new URL(config.registryUrl);
    const why = consoleRefusal(config) ??
      (protocol === "http:" && !isLocal(peer) ? "Only its own machine may use it." : null);
    if (why !== null) return sorry(why, 403);
    return await pageApp<ConsoleDeps, Asker>({
      pages: deps,
      version: () => Math.floor(clock.now() / LOOK_MS),
      root: ROOT,
      openRoot: OPEN,
      origin,
      texts: {
        place: host,
        title: "Open the console?",
        line: `You ran ${COMMAND}.`,
        command: COMMAND,
        over: "It was closed, not used for half an hour, or your API key was revoked.",
      },
      sessions: {
        take: (code, digest) => takeConsoleCode(deps, code, digest, { requestId, ip }),
        find: (digest, isUse) => findConsoleSession(deps, digest, { requestId, ip, isUse }),
        end: (digest) => endConsoleSession(deps, digest),
      },
      rows: ROWS,
      first: "overview",
      admit: async ({ human }) => {
        const { allowed } = await deps.limiter.hit(REQUESTS, human.id);
        return allowed
          ? null
          : sorry(`The console takes ${REQUESTS.requests} requests a minute of a person. Wait a minute.`, 429);
      },
      textOf: (form, maxBytes) => readBody(form, maxBytes, clock).then((body) => UTF8.decode(body)).catch(() => null),
      now: () => clock.now(),
      random: random.bytes,
    })(request);
  }
}

/** Tells whether the client is on this machine. A server on `::` sees IPv4 addresses as IPv6 ones. */
function isLocal(peer: Peer): boolean {
  return peer.from === "socket" && peer.address !== null && isLoopbackHost(unmapped(peer.address));
}

function sorry(why: string, status: number): PageAnswer {
  return plainPage("console", "The console", markup`<p class="soft">${why}</p>`, status);
}
