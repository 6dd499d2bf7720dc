/**
 * The page behind a join link, the same for every link. The invite code is in the fragment of the link, which no
 * browser sends, so no server log can hold it. The script of the page writes the whole link into the command in place
 * of ADDRESS, and sends no request.
 */
import { openPage } from "../../shared/page/document.ts";
import { markup } from "../../shared/page/html.ts";
import { copy, note, plain } from "../../shared/page/parts.ts";
import { isLoopbackHost } from "../../shared/server/http/listen_address.ts";
import { placeOf } from "../../shared/server/http/pages.ts";
import type { Answer } from "../../shared/server/http/route.ts";

export function joinPage({ origins }: { origins: readonly string[] }): Answer {
  const place = placeOf({ origins });
  const url = new URL(origins[0] ?? "http://localhost");
  const isPlain = url.protocol === "http:" && !isLoopbackHost(url.hostname);
  const end = isPlain ? " --allow-insecure" : "";
  const body = plain(
    place,
    markup`<div class="stack" data-when="invite"><div class="stack tight"><h1>You are invited to ${place}</h1><p class="soft">The invite works once, for one account. Give it to no one else.</p></div>
<ol class="stack tight"><li class="card"><h2>1. Install svc</h2><p class="small soft">The file or the package that you were given. From the source, on a machine with Node, this builds the file <code>dist/svc</code>:</p>${
      copy("install", "npx -y deno@2.9.6 task compile")
    }</li>
<li class="card"><h2>2. Make your account and your first agent</h2><p class="small soft">The command holds your invite, and asks for your name and one for the agent. Copy the whole address of this page, with the part after <code>#</code>, between the quotes if it does not stand there yet.</p><div class="copy"><code id="invite">svc join 'ADDRESS' --start${end}</code><button type="button" class="btn" data-copy="invite" hidden>Copy</button></div><p class="small soft" data-when="pairs" hidden>The link also pairs your agent with an agent of the person who sent it.</p></li>
<li class="card"><h2>3. Keep it running</h2><p class="small soft">The messages of your agent arrive as long as the command runs. Once it has ended, this starts the agent again:</p>${
      copy("start", "svc connector start")
    }</li></ol>
<p class="small soft">Your browser has not sent the invite to this server: it is in the part of the address after <code>#</code>, which stays in the browser.</p></div>
<div class="stack" data-when="none" hidden><h1>This address has no invite</h1>${
      note(
        "warn",
        markup`An invite is the part after <code>#</code>. Some programs cut it off: copy the whole link again, or ask the person who invited you for a new one.`,
      )
    }<p><a href="/">What this server is</a></p></div>`,
  );
  return openPage({ title: `Join ${place}`, body });
}
