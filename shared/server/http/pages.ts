/** The pages that need no session, which both services have. They are in no OpenAPI document. */
import { openPage, PAGE_FILES, pageFile } from "../../page/document.ts";
import { markup } from "../../page/html.ts";
import { plain, tag } from "../../page/parts.ts";
import { API_PAGES } from "./api_pages.ts";
import type { ApiDocs } from "./api_docs.ts";
import { type Answer, openRoute, type Route } from "./route.ts";

interface PageDeps {
  documents: ApiDocs;
  /** Origins of the service; the public one is first. */
  origins: readonly string[];
  /** Without `console`, this service has none. */
  config: { version: string; environment: string; registryUrl: string; console?: boolean };
}

export function pageRoute<D>(
  path: string,
  summary: string,
  handler: (deps: D) => Answer | Promise<Answer>,
  contentType = "text/html",
): Route<D> {
  return { ...openRoute(path, summary, { status: 200, contentType }, handler), isPage: true };
}

/** Returns the pages of a service. `isReady` tells whether the service accepts requests. */
export function pageRoutes<D extends PageDeps>(isReady: (deps: D) => Promise<boolean>): Route<D>[] {
  return [
    pageRoute<D>("/", "What this server is", async (deps) => landing(deps, await isReady(deps))),
    ...Object.keys(PAGE_FILES).map((path) => {
      const file = pageFile(path);
      return pageRoute<D>(path, "A file of the pages", () => file, file.headers["Content-Type"]?.split(";")[0]);
    }),
    ...API_PAGES.map((path) => pageRoute<D>(path, "The API for people", ({ documents }) => documents.page(path))),
  ];
}

/** Returns the name of a server as its pages show it. */
export function placeOf({ origins }: Pick<PageDeps, "origins">): string {
  return new URL(origins[0] ?? "http://localhost").host;
}

function landing(deps: PageDeps, isReady: boolean): Answer {
  const place = placeOf(deps);
  const { version, environment, registryUrl, console = false } = deps.config;
  const [what, command] = console
    ? ["Open the console", "svc admin open"]
    : ["Look at its people and agents", "svc admin people list"];
  const body = plain(
    place,
    markup`<div class="stack tight"><h1 class="big">Agents that can prove who they are, and whether a message arrived.</h1><p class="soft">This server gives each agent a key and a signed identity of its own, and delivers messages between agents whose people have paired them.</p></div>${FIGURE}<div class="cards"><a class="card" href="${`${registryUrl}/join`}"><h2>You have an invite</h2><p class="small soft">Open the link you were sent; it shows the one command that makes your account.</p></a><a class="card" href="/docs"><h2>You write a client</h2><p class="small soft">Every route with its fields, its errors and an example. Also as OpenAPI 3.1.</p></a><div class="card"><h2>You run this server</h2><p class="small soft">${what} from your own machine:</p><p class="small"><code>${command}</code></p></div></div><p class="row small soft">${
      isReady ? tag("ok", "Ready") : tag("bad", "Not ready")
    }<span>Version ${version}</span><span>Environment ${environment}</span><a href="/health">Health</a><a href="/openapi.json">OpenAPI</a></p>`,
  );
  return openPage({ title: `svc at ${place}`, body }, { cache: "public, max-age=300" });
}

const FIGURE =
  markup`<svg class="path" viewBox="0 0 440 112" role="img" aria-labelledby="dg"><title id="dg">A message goes from agent alpha through svc, which checks identity, pair and revocation, to agent beta; the receipt comes back.</title><g fill="none" stroke="currentColor"><rect x="1" y="28" width="94" height="56" rx="11"/><rect x="345" y="28" width="94" height="56" rx="11"/></g><rect class="f1 a1" x="149" y="10" width="142" height="92" rx="12"/><rect class="l1" x="149" y="10" width="142" height="92" rx="12"/><path class="l1" d="M97 46h44M291 46h46"/><path class="f1" d="m149 46-10-5v10zM345 46l-10-5v10z"/><path class="l2" d="M343 68h-42M147 68h-42"/><path class="f2" d="m291 68 10-5v10zM95 68l10-5v10z"/><g font-size="14" fill="currentColor" text-anchor="middle"><text x="48" y="53" font-weight="600">alpha</text><text x="48" y="71" font-size="12">Ada’s agent</text><text x="392" y="53" font-weight="600">beta</text><text x="392" y="71" font-size="12">Bob’s agent</text><text x="220" y="38" font-weight="600">svc</text><text x="220" y="61" font-size="12.5">identity, pair,</text><text x="220" y="79" font-size="12.5">not revoked</text></g></svg>`;
