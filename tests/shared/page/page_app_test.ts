/** Admission, opening, forms and looks of pages: what another site, an old code or a stolen half of a session gets. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import { sha256 } from "../../../shared/protocol/base64url.ts";
import { PAGE_FILES, type PageAnswer } from "../../../shared/page/document.ts";
import { markup } from "../../../shared/page/html.ts";
import { newCode, pageApp, type PageRow } from "../../../shared/page/page_app.ts";
import { anyText } from "../protocol/arbitraries.ts";
import { seededRandom } from "../../support/seeded_random.ts";

const ORIGIN = "http://127.0.0.1:8790";

interface Sent {
  method?: string;
  headers?: Record<string, string | null>;
  form?: Record<string, string>;
}

function opened({ now = (): number => 0, uses = [] as boolean[] } = {}) {
  const random = (bytes: number) => seededRandom(7).bytes(bytes);
  const codes = new Map<string, string>(), sessions = new Map<string, string>();
  const done: string[] = [];
  let version = 1, renders = 0;
  const rows: PageRow<null, string>[] = [
    {
      method: "GET",
      path: "inbox",
      live: true,
      render: (_, { session, csrf }) => {
        renders++;
        return { view: { title: "Inbox", body: markup`${session}${csrf}`, live: { every: 2 } } };
      },
    },
    {
      method: "POST",
      path: "peers/:alias",
      formBytes: 100,
      render: (_, { params, form }) => {
        done.push(`${params.alias} ${form.get("text")}`);
        return { to: "inbox" };
      },
    },
  ];
  const app = pageApp<null, string>({
    pages: null,
    version: () => version,
    root: "/p",
    openRoot: "/open",
    origin: ORIGIN,
    texts: {
      place: "svc",
      title: "The page of alpha",
      line: "Someone ran it.",
      command: "svc connector open",
      over: "Over.",
    },
    sessions: {
      take(code, session) {
        const who = codes.get(code) ?? null;
        codes.delete(code);
        if (who !== null) sessions.set(session, who);
        return who;
      },
      find: (session, isUse) => {
        uses.push(isUse);
        return sessions.get(session) ?? null;
      },
      end: (session) => void sessions.delete(session),
    },
    rows,
    first: "inbox",
    textOf: async (request, maxBytes) => {
      const text = await request.text();
      return text.length > maxBytes ? null : text;
    },
    now,
    random,
  });
  const ask = (path: string, { method = "GET", headers = {}, form }: Sent = {}): Promise<PageAnswer> => {
    const given: Record<string, string | null> = {
      host: "127.0.0.1:8790",
      "sec-fetch-site": "same-origin",
      ...form === undefined ? {} : { origin: ORIGIN, "content-type": "application/x-www-form-urlencoded" },
      ...headers,
    };
    const sent = new Headers();
    for (const [name, value] of Object.entries(given)) if (value !== null) sent.set(name, value);
    const body = form === undefined ? null : new URLSearchParams(form).toString();
    // Deno gives this name to a request over HTTP/1 that names no host.
    const origin = sent.has("host") ? ORIGIN : "http://localhost:8790";
    return app(new Request(origin + path, { method: body === null ? method : "POST", headers: sent, body }));
  };
  const code = async (who = "alpha") => {
    const made = await newCode(random);
    codes.set(made.digest, who);
    return made.code;
  };
  const open = async () => {
    const answer = await ask(`/open/${await code()}`, { form: {} });
    const cookie = answer.headers["Set-Cookie"]?.split(";")[0] ?? "";
    const base = (answer.headers.Location ?? "").replace("/inbox", "");
    const csrf = await sha256(`csrf.${cookie.split("=")[1]}`);
    return { base, cookie, csrf, answer };
  };
  return { ask, code, open, done, change: () => version++, renders: () => renders };
}

Deno.test("a GET uses no code up, a POST takes it once, and the cookie goes to its path only", async () => {
  const { ask, code } = opened();
  const address = `/open/${await code()}`;
  for (let i = 0; i < 3; i++) {
    const look = await ask(address, { headers: { "sec-fetch-site": "cross-site" } });
    assertEquals([look.status, look.headers["Set-Cookie"]], [200, undefined]);
    assertStringIncludes(look.body ?? "", "data-auto");
  }
  const [first, second] = await Promise.all([ask(address, { form: {} }), ask(address, { form: {} })]);
  assertEquals([first?.status, second?.status].sort(), [303, 404]);
  assertMatch(
    first?.headers["Set-Cookie"] ?? second?.headers["Set-Cookie"] ?? "",
    /^svc_page=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/p\/[\w-]{22}\/$/,
  );
  const wrong = await ask("/open/unknown", { form: {} });
  assertEquals(wrong.status, 404);
  assertStringIncludes(wrong.body ?? "", "svc connector open");
  assert(!wrong.body?.includes("Over."), "a code that never opened anything is no session that ended");
});

Deno.test("neither half of a session is one: cookie and label belong together", async () => {
  const { ask, open } = opened();
  const one = await open(), two = await open();
  const status = async (path: string, cookie: string) => (await ask(`${path}/inbox`, { headers: { cookie } })).status;
  assertEquals(await status(one.base, `a=b; ${one.cookie}`), 200);
  assertEquals(await status(one.base, ""), 403);
  assertEquals(await status(`/p/${"A".repeat(22)}`, one.cookie), 403);
  assertEquals(await status("/p/", one.cookie), 403);
  assertEquals(two.base === one.base, true, "the seeded label is the same, so only the cookie tells them apart");
});

Deno.test("a long text that comes after its session is in the answer, and what another site sends is in none", async () => {
  const { ask, open } = opened();
  const { base, cookie } = await open();
  const text = "half a <thought>\u200b";
  const sent = async (headers: Record<string, string>) => {
    const { status, body } = await ask(`${base}/peers/beta`, { headers: { cookie, ...headers }, form: { text } });
    return [status, body?.includes("half a &#60;thought&#62;\u200b")];
  };
  assertEquals(await sent({ cookie: "svc_page=ended" }), [403, true]);
  assertEquals(await sent({ cookie: "svc_page=ended", origin: "http://127.0.0.1:8791" }), [403, false]);
  const tooLong = await ask(`${base}/peers/beta`, { form: { text: "x".repeat(200) } });
  assertEquals([tooLong.status, tooLong.body?.includes("xxx")], [403, false]);
});

Deno.test("a request of another name, another site or another origin is refused and does nothing", async () => {
  const { ask, open, done } = opened();
  const { base, cookie, csrf } = await open();
  const own = { cookie };
  for (
    const headers of [
      { host: "evil.example:8790" },
      { host: "localhost:8790" },
      { host: null },
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site" },
    ]
  ) {
    const answer = await ask(`${base}/inbox`, { headers: { ...own, ...headers } });
    assertEquals(answer.status, 403, JSON.stringify(headers));
    assert(!answer.body?.includes("alpha</b>"));
  }
  for (
    const headers of [
      { origin: "http://127.0.0.1:9999" },
      { origin: "http://localhost:8790" },
      { origin: "null" },
      { origin: null },
      { "content-type": "text/plain" },
      { "content-type": "application/json" },
    ]
  ) {
    const answer = await ask(`${base}/peers/beta`, { form: { csrf, text: "hi" }, headers: { ...own, ...headers } });
    assertEquals(answer.status, 403, JSON.stringify(headers));
  }
  const stale = await sha256("csrf.another cookie");
  for (const form of [{ text: "hi" }, { csrf: stale, text: "hi" }, { csrf, text: "x".repeat(200) }]) {
    assertEquals((await ask(`${base}/peers/beta`, { form, headers: own })).status, 403);
  }
  assertEquals(done, []);
  const good = await ask(`${base}/peers/be%20ta`, { form: { csrf, text: "hi" }, headers: own });
  assertEquals([good.status, good.headers.Location, done], [303, `${base}/inbox`, ["be ta hi"]]);
});

Deno.test("a page that has not changed is not rendered again, and changes with its data and with the minute", async () => {
  let now = 0;
  const { ask, open, change, renders } = opened({ now: () => now });
  const { base, cookie } = await open();
  const look = async (tag: string | null = null) =>
    await ask(`${base}/inbox`, { headers: { cookie, "if-none-match": tag } });
  const first = await look();
  const tag = first.headers.ETag ?? "";
  assertStringIncludes(first.body ?? "", `data-tag="${tag.replaceAll('"', "&#34;")}" data-every="2"`);
  const same = await look(tag);
  assertEquals([same.status, same.body, renders()], [304, null, 1]);
  change();
  assertEquals((await look(tag)).status, 200);
  const next = (await look()).headers.ETag ?? "";
  now = 60_000;
  assertEquals((await look(next)).status, 200);
});

Deno.test("a click is use of a session; what an open page asks for by itself is none", async () => {
  const uses: boolean[] = [];
  const { ask, open } = opened({ uses });
  const { base, cookie } = await open();
  const click = { cookie, "sec-fetch-mode": "navigate", "sec-fetch-user": "?1" };
  const asked: [Record<string, string>, boolean][] = [
    [click, true],
    [{ cookie }, true],
    [{ cookie, "if-none-match": '"x"' }, false],
    [{ cookie, "if-none-match": '"x"', "sec-fetch-mode": "cors" }, false],
    [{ cookie, "sec-fetch-mode": "navigate" }, false],
  ];
  for (const [headers] of asked) await ask(`${base}/inbox`, { headers });
  assertEquals(uses, asked.map(([, isUse]) => isUse));
});

Deno.test("closing ends the session, and its forms do nothing afterwards", async () => {
  const { ask, open, done } = opened();
  const { base, cookie, csrf } = await open();
  const closed = await ask(`${base}/close`, { form: { csrf }, headers: { cookie } });
  assertEquals(closed.status, 200);
  assertEquals((await ask(`${base}/inbox`, { headers: { cookie } })).status, 403);
  assertEquals((await ask(`${base}/peers/b`, { form: { csrf, text: "x" }, headers: { cookie } })).status, 403);
  assertEquals(done, []);
});

Deno.test("the policy of a page with a session names its files and its path by their addresses", async () => {
  const { ask, open } = opened();
  const { base, cookie } = await open();
  const { headers } = await ask(`${base}/inbox`, { headers: { cookie } });
  assertEquals(
    headers["Content-Security-Policy"],
    `default-src 'none'; script-src ${ORIGIN}/page.js; style-src ${ORIGIN}/page.css; img-src ${ORIGIN}/icon.svg; ` +
      `connect-src ${ORIGIN}${base}/; form-action ${ORIGIN}${base}/; frame-ancestors 'none'; base-uri 'none'; ` +
      "require-trusted-types-for 'script'; trusted-types 'none'",
  );
});

Deno.test("the files of the pages stay small, because a slow line loads them before it shows anything", () => {
  const bytes = (path: string) => new TextEncoder().encode(PAGE_FILES[path]?.text).length;
  assert(bytes("/page.css") <= 12 * 1024, `${bytes("/page.css")} bytes of CSS`);
  assert(bytes("/page.js") <= 4 * 1024, `${bytes("/page.js")} bytes of JavaScript`);
});

Deno.test("any path, cookie and form get a page, and only the form of the session's own page does something", async () => {
  const { ask, open, done } = opened();
  const { base, cookie, csrf } = await open();
  const part = fc.oneof(
    fc.stringMatching(/^[!-~]{0,12}$/),
    fc.constantFrom("%", "%ff", "..", "inbox", "peers", "%2e%2e"),
  );
  const path = fc.oneof(
    fc.array(part, { maxLength: 4 }).map((parts) => `/${parts.join("/")}`),
    fc.array(part, { maxLength: 2 }).map((parts) => [base, ...parts].join("/")),
    fc.constantFrom(`${base}/inbox`, `${base}/peers/beta`, `${base}/peers/%f0`, `${base}/close/x`, "/open/x"),
  );
  const cookies = fc.oneof(
    fc.constantFrom(
      cookie,
      `a=b;${cookie}`,
      `${cookie}; svc_page=x`,
      `svc_page=x; ${cookie}`,
      "svc_page=",
      "svc_page",
      "",
    ),
    fc.stringMatching(/^[!-~ ]{0,40}$/),
  );
  const form = fc.option(fc.dictionary(fc.constantFrom("text", "csrf", "x"), fc.oneof(anyText, fc.constant(csrf))));
  const type = fc.constantFrom(
    "application/x-www-form-urlencoded",
    "application/x-www-form-urlencoded; charset=x",
    "text/plain",
  );
  await fc.assert(
    fc.asyncProperty(path, cookies, form, type, async (path, cookie, form, type) => {
      const before = done.length, isForm = form !== null;
      const headers = { cookie, ...isForm && { "content-type": type } };
      const { status, body } = await ask(path, { headers, ...isForm && { form } });
      assert([200, 303, 403, 404].includes(status), `${status} for ${path}`);
      assert(body === null || !/<script(?! src)/i.test(body), "no script in a page");
      const isOwn = isForm && form.csrf === csrf && type !== "text/plain" && status === 303;
      assert(done.length === before + (isOwn && !path.startsWith("/open/") ? 1 : 0), `${path} ${cookie}`);
    }),
    { numRuns: 1_500 },
  );
});

Deno.test("a cookie or a form as long as a server takes is read in bounded time", async () => {
  const { ask, open } = opened();
  const { base, cookie } = await open();
  for (const unit of [";", "=", " ", "svc_pag=;", "%", "&", "+"]) {
    const long = unit.repeat(60_000 / unit.length);
    assertEquals((await ask(`${base}/inbox`, { headers: { cookie: `a=${long};${cookie}` } })).status, 200, unit);
    const sent = await ask(`${base}/peers/beta`, { headers: { cookie }, form: { text: long } });
    assertEquals(sent.status, 403, "a form over its bound is none");
  }
});
