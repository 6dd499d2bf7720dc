/**
 * Answers requests for pages from a table of rows: admission, session, opening, forms, and polls for changes. The
 * console and the connector's page use it in place of the HTTP layer of their APIs, which refuses what a browser sends.
 * A code that works once opens a session, because a password can be phished. Half of a session's secret is in the path
 * and half in a cookie, because a cookie alone goes to every port of a host, and an address alone stays in the
 * browser's history.
 */
import { pathParams } from "./path_params.ts";
import { sha256, toBase64Url } from "../protocol/base64url.ts";
import { LIMITS } from "../protocol/limits.ts";
import { documentOf, type PageAnswer, pageHeaders, type PageView, plainPage } from "./document.ts";
import { type Html, markup, typed } from "./html.ts";
import { copy, hidden } from "./parts.ts";

/** Keeps codes and sessions by their digests, so that neither can be read back. */
export interface PageSessions<S> {
  /** Uses up a code and begins the session in one atomic step. Returns `null` if the code is unknown, used or old. */
  take(codeDigest: string, sessionDigest: string): Promise<S | null> | S | null;
  /**
   * Returns the session as long as it is valid.
   *
   * @param isUse false for a request that an open page makes by itself. Such a request does not prolong the session,
   * because a page that was left open would otherwise keep it alive without end
   */
  find(sessionDigest: string, isUse: boolean): Promise<S | null> | S | null;
  end(sessionDigest: string): Promise<void> | void;
}

export interface PageInput<S> {
  session: S;
  /** The parts of the path that the row calls `:name`. */
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  /** The fields that a form sent; empty for a GET. */
  form: URLSearchParams;
  /** Path before the pages, including the label of the session. */
  base: string;
  /** The hidden field with which each form of this page proves that the page made it. */
  csrf: Html;
}

/** What a page answers: itself, the path of another page to go to (below the base), or a file. */
export type PageResult =
  | { view: PageView; status?: number }
  | { to: string }
  | { file: string; name: string; type: string };

/** A row: one page, or the action of one form. `C` is what all pages of a site share. */
export interface PageRow<C, S> {
  method: "GET" | "POST";
  /** Path below the base; `:name` is a parameter. */
  path: string;
  /** Largest form in bytes (default 64 KiB). */
  formBytes?: number;
  /** True for a page that updates itself. It answers 304 while the site's version and the minute are the same. */
  live?: true;
  render(pages: C, input: PageInput<S>): PageResult | Promise<PageResult>;
}

export interface PageSite<C, S> {
  pages: C;
  /** Returns a value that changes whenever live pages show something new. */
  version(): string | number;
  /** Path of the pages: `/p`, `/console`. */
  root: string;
  /** Path of the codes: `/open`, `/console/open`. */
  openRoot: string;
  origin: string;
  texts: { place: string; title: string; line: string; command: string; over: string };
  sessions: PageSessions<S>;
  rows: readonly PageRow<C, S>[];
  /** Path, below the base, of the page that is shown after opening. */
  first: string;
  /** Returns the body of a request, or `null` when it is over `maxBytes`, does not arrive completely, or is not UTF-8. */
  textOf(request: Request, maxBytes: number): Promise<string | null>;
  /** Called for each request with a session. It can refuse the request with an answer of its own. */
  admit?(session: S): Promise<PageAnswer | null>;
  now(): number;
  random(bytes: number): Uint8Array;
}

const COOKIE = "svc_page";
const FORM_BYTES = 65_536;
const LABEL_BYTES = 16;
const SECRET_BYTES = 32;

export function isPagePath(
  { root, openRoot }: Pick<PageSite<never, never>, "root" | "openRoot">,
  path: string,
): boolean {
  return [root, openRoot].some((own) => path === own || path.startsWith(`${own}/`));
}

/** Makes a code that opens a page once. Returns the code and its digest for the store. */
export async function newCode(random: (bytes: number) => Uint8Array): Promise<{ code: string; digest: string }> {
  const code = toBase64Url(random(SECRET_BYTES));
  return { code, digest: await sha256(code) };
}

export function pageApp<C, S>(site: PageSite<C, S>): (request: Request) => Promise<PageAnswer> {
  return async (request) => {
    const { method } = request, url = new URL(request.url), path = url.pathname;
    const refusal = refusalOf(site, request, url);
    if (refusal !== null) return refused(site, "Not here", refusal);
    if (path.startsWith(`${site.openRoot}/`)) return await opened(site, request, path.slice(site.openRoot.length + 1));
    const [label = "", ...rest] = path.slice(site.root.length + 1).split("/");
    // The bare path is where people first look for the page, so it does not say that something is over.
    if (label === "") return refused(site, "Not open yet", "You have no session here.");
    const wanted = rest.join("/");
    const found = rowOf(site.rows, method === "HEAD" ? "GET" : method, wanted);
    const cookie = cookieOf(request.headers);
    const isOver = async () => {
      // The answer holds a long text that was sent, because the browser keeps no page of a session to go back to.
      const bytes = found?.row.formBytes;
      const text = bytes === undefined ? null : (await formOf(site, request, bytes))?.get("text");
      return refused(site, "This session is over", site.texts.over, 403, text);
    };
    if (cookie === null) return await isOver();
    const digest = await sha256(`${label}.${cookie}`);
    const session = await site.sessions.find(digest, isUse(request.headers));
    if (session === null) return await isOver();
    const notAdmitted = await site.admit?.(session) ?? null;
    if (notAdmitted !== null) return notAdmitted;
    const base = `${site.root}/${label}`;
    const csrf = await sha256(`csrf.${cookie}`);
    const isClosing = method === "POST" && wanted === "close";
    if (found === null && !isClosing) {
      const way = markup`<p><a href="${`${base}/${site.first}`}">Go to the first page</a></p>`;
      return plainPage(site.texts.place, "There is no such page", way, 404);
    }
    const form = method === "POST"
      ? await formOf(site, request, found?.row.formBytes ?? FORM_BYTES)
      : new URLSearchParams();
    if (method === "POST" && form?.get("csrf") !== csrf || form === null) {
      return refused(site, "Nothing was done", "The form is not of this page.");
    }
    if (found === null) {
      await site.sessions.end(digest);
      return refused(site, "This session is closed", "No one can use it any longer.", 200);
    }
    const { row, params } = found;
    const input = { session, params, query: url.searchParams, form, base, csrf: hidden({ csrf }) };
    return await answerOf(site, row, input, request);
  };
}

/** Tells whether a person caused a request. A poll of the script, or a reload without the script, is not a use. */
function isUse(headers: Headers): boolean {
  const isOfBrowser = headers.has("sec-fetch-mode");
  return !headers.has("if-none-match") && (!isOfBrowser || headers.get("sec-fetch-user") === "?1");
}

/** Returns why a request is refused before its session is looked up, or `null` when it is not. */
function refusalOf<C, S>(site: PageSite<C, S>, { method, headers }: Request, url: URL): string | null {
  // Another site may let its own name resolve to this address, to read the answers. `Host` then names that site. A
  // request over HTTP/2 has no such header, so its URL gives the name.
  const host = headers.get("host")?.toLowerCase() ?? url.host;
  if (host !== new URL(site.origin).host) return "This address belongs to another name.";
  const isOpening = method === "GET" && url.pathname.startsWith(`${site.openRoot}/`);
  const from = headers.get("sec-fetch-site");
  if (!isOpening && from !== null && from !== "same-origin" && from !== "none") {
    return "Another site has asked for this page.";
  }
  if (method === "POST" && headers.get("origin") !== site.origin) return "Another site has sent this form.";
  return null;
}

/** A GET changes nothing, because the preview of a link would otherwise use up the code. */
async function opened<C, S>(site: PageSite<C, S>, request: Request, code: string): Promise<PageAnswer> {
  const { place, title, line } = site.texts, minutes = LIMITS.pageCodeMs / 60_000;
  if (request.method !== "POST") {
    const form = markup`<form method="post"><button class="btn" data-auto>Open</button></form>`;
    const text = markup`<p class="soft">${line} The address works once, for ${minutes} min.</p>${form}`;
    return plainPage(place, title, text, 200);
  }
  const label = toBase64Url(site.random(LABEL_BYTES)), cookie = toBase64Url(site.random(SECRET_BYTES));
  const session = await site.sessions.take(await sha256(code), await sha256(`${label}.${cookie}`));
  if (session === null) {
    return refused(site, "This address is over", `It was used, or it is over ${minutes} min old.`, 404);
  }
  const base = `${site.root}/${label}`;
  const secure = site.origin.startsWith("https:") ? "; Secure" : "";
  return {
    status: 303,
    headers: {
      ...pageHeaders(null),
      Location: `${base}/${site.first}`,
      "Set-Cookie": `${COOKIE}=${cookie}; HttpOnly; SameSite=Strict; Path=${base}/${secure}`,
    },
    body: null,
  };
}

async function answerOf<C, S>(
  site: PageSite<C, S>,
  row: PageRow<C, S>,
  input: PageInput<S>,
  { url, headers }: Request,
): Promise<PageAnswer> {
  const place = { origin: site.origin, base: input.base };
  // The minute is part of the tag, because times are shown relative to now.
  const state = `${url} ${site.version()} ${Math.floor(site.now() / 60_000)}`;
  const tag = row.live ? (await sha256(state)).slice(0, 22) : null;
  const common = { ...pageHeaders(place), ...tag === null ? {} : { ETag: `"${tag}"` } };
  if (tag !== null && headers.get("if-none-match") === `"${tag}"`) return { status: 304, headers: common, body: null };
  const result = await row.render(site.pages, input);
  if ("to" in result) {
    return { status: 303, headers: { ...common, Location: `${input.base}/${result.to}` }, body: null };
  }
  if ("file" in result) {
    const { file, name, type } = result;
    const disposition = { "Content-Type": type, "Content-Disposition": `attachment; filename="${name}"` };
    return { status: 200, headers: { ...common, ...disposition }, body: file };
  }
  return { status: result.status ?? 200, headers: common, body: documentOf(result.view, tag && `"${tag}"`) };
}

/** @param text what a person wrote, which would otherwise be lost */
function refused<C, S>(
  { texts }: PageSite<C, S>,
  title: string,
  why: string,
  status = 403,
  text?: string | null,
): PageAnswer {
  const way = markup`<p class="soft">${why} Open the page with:</p>${copy("command", texts.command)}${
    text && markup`<p class="soft">You wrote:</p>${copy("text", typed(text))}`
  }`;
  return plainPage(texts.place, title, way, status);
}

function rowOf<C, S>(rows: readonly PageRow<C, S>[], method: string, path: string) {
  for (const row of rows) {
    const params = row.method === method ? pathParams(row.path, path) : null;
    if (params !== null) return { row, params };
  }
  return null;
}

async function formOf<C, S>(
  { textOf }: PageSite<C, S>,
  request: Request,
  maxBytes: number,
): Promise<URLSearchParams | null> {
  const type = request.headers.get("content-type")?.split(";")[0]?.trim();
  if (type !== "application/x-www-form-urlencoded") return null;
  const text = await textOf(request, maxBytes);
  return text === null ? null : new URLSearchParams(text);
}

function cookieOf(headers: Headers): string | null {
  const cookies = (headers.get("cookie") ?? "").split(";").map((cookie) => cookie.trim());
  return cookies.find((cookie) => cookie.startsWith(`${COOKIE}=`))?.slice(COOKIE.length + 1) ?? null;
}
