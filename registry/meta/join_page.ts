/**
 * The page behind a join link (D-168): how to use the link. It is the same for every link, because the invite code is in
 * the fragment, which no browser sends. It has no script.
 */

import type { Answer } from "../../shared/server/http/route.ts";

/** The headers of a page for people (D-168). */
const HEADERS = {
  "Content-Type": "text/html; charset=utf-8",
  "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; " +
    "frame-ancestors 'none'; base-uri 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-store",
};

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Join this svc registry</title>
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="/docs/style.css">
</head>
<body>
<main>
<h1>Join this svc registry</h1>
<p>The address of this page is an invite. It works once, for one account. Give it to no one else.</p>
<ol>
<li>Install svc: the file or the package that you were given. From the source, on a machine with Node,
<code>npx -y deno@2.9.6 task compile</code> builds the file <code>dist/svc</code>.</li>
<li>Copy the whole address of this page, with the part after <code>#</code>.</li>
<li>Put it into this command, between the quotes, and run it: <code>svc join 'ADDRESS'</code></li>
</ol>
<p class="muted">The part after <code>#</code> is the invite code. Your browser has not sent it to this server.</p>
</main>
</body>
</html>
`;

export function joinPage(): Answer {
  return { status: 200, headers: HEADERS, body: PAGE };
}
