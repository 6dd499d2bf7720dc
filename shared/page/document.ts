/** A whole page with its headers. Its Content-Security-Policy lets no script turn a string into markup. */
import { sha256 } from "../protocol/base64url.ts";
import { type Html, markup, type Value } from "./html.ts";
import { plain } from "./parts.ts";
import css from "./page.css" with { type: "text" };
import icon from "./icon.svg" with { type: "text" };
import script from "./page.js" with { type: "text" };

export interface PageAnswer {
  status: number;
  headers: Record<string, string>;
  body: string | null;
}

export interface PageView {
  title: string;
  body: Html;
  /**
   * Present for a page that updates itself. `every`: seconds between two polls of the script, 15 times as many while
   * the page is hidden. `notice`: shown when `unread` grows meanwhile.
   */
  live?: { every: number; unread?: number; notice?: string } | undefined;
  /**
   * Name of the page's layout, such as `none` for a page without rows. When it changes, the script reloads the page,
   * because it can only merge parts into the same layout. It waits while a person writes, because that would be lost.
   */
  kind?: string | undefined;
  /** True when a person writes in the page. Without the script it is not reloaded, because that would lose the text. */
  hasField?: boolean | undefined;
}

export interface PagePlace {
  origin: string;
  /** The beginning of the path of every page. */
  base: string;
}

export const PAGE_FILES: Readonly<Record<string, { type: string; text: string }>> = {
  "/page.css": { type: "text/css; charset=utf-8", text: css },
  "/page.js": { type: "text/javascript; charset=utf-8", text: script },
  "/icon.svg": { type: "image/svg+xml; charset=utf-8", text: icon },
};

const VERSION = (await sha256(css + script + icon)).slice(0, 8);

const SAFE_HEADERS = {
  "X-Content-Type-Options": "nosniff",
  "Cross-Origin-Resource-Policy": "same-origin",
};

/** Returns a file of the pages. Browsers keep it permanently, because its address contains its version. */
export function pageFile(path: string): PageAnswer {
  const { type, text } = PAGE_FILES[path] ?? { type: "text/plain", text: "" };
  const headers = {
    ...SAFE_HEADERS,
    "Content-Type": type,
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'",
  };
  return { status: 200, headers, body: text };
}

/** @param place `null` for a page that has no session and asks for nothing */
export function pageHeaders(place: PagePlace | null): Record<string, string> {
  const at = (path: string) => place === null ? "'self'" : `${place.origin}${path}`;
  const within = place === null ? "'self'" : `${place.origin}${place.base}/`;
  return {
    ...SAFE_HEADERS,
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": [
      "default-src 'none'",
      `script-src ${at("/page.js")}`,
      `style-src ${at("/page.css")}`,
      `img-src ${at("/icon.svg")}`,
      `connect-src ${place === null ? "'none'" : within}`,
      `form-action ${within}`,
      "frame-ancestors 'none'",
      "base-uri 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ].join("; "),
    // With `no-referrer`, a form would send `Origin: null`, and this site would refuse its own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
  };
}

/** @param tag version of the page, with which the script asks for changes */
export function documentOf({ title, body, live, kind, hasField }: PageView, tag: string | null = null): string {
  const attributes = live && tag !== null &&
    markup` data-tag="${tag}" data-every="${live.every}" data-unread="${
      live.unread ?? 0
    }" data-notice="${live.notice}"`;
  return markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="${`/icon.svg?v=${VERSION}`}">
<link rel="stylesheet" href="${`/page.css?v=${VERSION}`}">
<script src="${`/page.js?v=${VERSION}`}" defer></script>
${live && !hasField && markup`<noscript><meta http-equiv="refresh" content="30"></noscript>`}
</head>
<body${kind && markup` data-kind="${kind}"`}${attributes}>
<a class="skip" href="#main">Skip to content</a>
${body}
</body>
</html>
`.text;
}

export function openPage(view: PageView, { status = 200, cache = "no-store" } = {}): PageAnswer {
  return { status, headers: { ...pageHeaders(null), "Cache-Control": cache }, body: documentOf(view) };
}

export function plainPage(place: string, title: string, text: Value, status: number): PageAnswer {
  const body = plain(place, markup`<section class="card"><h1>${title}</h1>${text}</section>`);
  return openPage({ title, body }, { status });
}
