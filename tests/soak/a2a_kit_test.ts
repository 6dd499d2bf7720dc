/**
 * The technology compatibility kit of A2A 1.0 against the local A2A address of a peer, with real processes: every MUST
 * that applies is met, and docs/departures.md lists the others. The kit is a Python program that no registry has:
 * `A2A_TCK` names its folder, else it is in `.cache/a2a-tck`; a virtual environment `.venv` in it has its libraries.
 *
 * The kit has no credentials, so a front adds the token of the peer. The kit says what the agent shall do by the beginning
 * of a messageId, which no peer sees, so the front puts it into the text.
 */
import { assertEquals } from "@std/assert";
import { RunningConnector, svc } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { pairedNames } from "../e2e/harness.ts";
import { ROOT, Service, tempFolder } from "../support/process.ts";

const KIT = Deno.env.get("A2A_TCK") ?? `${ROOT}/.cache/a2a-tck`;
const PYTHON = `${KIT}/.venv/bin/python`;
const isThere = await Deno.stat(PYTHON).then(() => true, () => false);
if (!isThere) {
  console.log("The kit of A2A is NOT run: neither A2A_TCK nor .cache/a2a-tck is a folder with it and its .venv");
}

/** How the peer answers, by the beginning of the messageId. */
const ANSWERS: Readonly<Record<string, unknown>> = {
  "tck-artifact-text": { reply: "Generated text content" },
  "tck-artifact-data": { reply: { key: "value", count: 42 } },
};

/** The runtime of the peer. */
function peer() {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { message } = await request.json() as { message?: string };
    const [prefix] = Object.keys(ANSWERS).filter((name) => message?.includes(`[${name}`));
    return Response.json(prefix === undefined ? { reply: "Hello from TCK" } : ANSWERS[prefix]);
  });
}

interface Call {
  params?: { message?: { messageId?: unknown; parts?: { text?: unknown }[] } };
}

/** The body of a call with the messageId behind its first text. Any other body stays as it is. */
function marked(text: string): string {
  try {
    const call = JSON.parse(text) as Call;
    const { messageId, parts: [part] = [] } = call.params?.message ?? {};
    if (typeof messageId !== "string" || typeof part?.text !== "string" || !messageId.startsWith("tck-")) return text;
    part.text += ` [${messageId}]`;
    return JSON.stringify(call);
  } catch {
    return text;
  }
}

/** Passes requests on with the token, and puts its own address into the card. */
function front(target: string, token: string) {
  const server: Deno.HttpServer<Deno.NetAddr> = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      const { pathname, search } = new URL(request.url);
      const headers = new Headers(request.headers);
      headers.delete("host");
      headers.delete("content-length");
      headers.set("Authorization", `Bearer ${token}`);
      const body = request.method === "GET" ? null : marked(await request.text());
      const response = await fetch(target + (pathname === "/" ? "" : pathname) + search, {
        method: request.method,
        headers,
        body,
      });
      const text = (await response.text()).replaceAll(target, `http://127.0.0.1:${server.addr.port}`);
      const answer = new Headers(response.headers);
      answer.delete("content-length");
      return new Response([204, 304].includes(response.status) ? null : text, {
        status: response.status,
        headers: answer,
      });
    },
  );
  return server;
}

interface Report {
  per_requirement: Record<string, { level: string; status: string; errors: string[] }>;
}

/** The requirements in the table of docs/departures.md. */
function listed(): string[] {
  const text = Deno.readTextFileSync(`${ROOT}/docs/departures.md`);
  const [, section = ""] = text.split("\n## A2A\n");
  const rows = section.split("\n## ")[0]?.matchAll(/^\| `([A-Z0-9_-]+)` \|/gm) ?? [];
  return [...rows].map(([, id = ""]) => id);
}

Deno.test({
  name: "a local A2A address meets every MUST of the kit that docs/departures.md does not list",
  ignore: !isThere,
  async fn() {
    await using service = await Service.open();
    await using folder = await tempFolder();
    const program = await bundledProgram();
    await pairedNames(service, folder.path, ["alpha", "beta"]);
    await using _alpha = await RunningConnector.start(folder.path, "alpha", ["--inbox"], { program });
    await using runtime = peer();
    const options = ["--runtime-base-url", `http://127.0.0.1:${runtime.addr.port}`, "--replies", "on"];
    await using _beta = await RunningConnector.start(folder.path, "beta", options, { program });
    const { url, token } = await svc(folder.path, ["a2a", "add", "beta", "--agent", "alpha"], {}, program);
    await using host = front(url, token);
    const report = `${folder.path}/report`;
    const { stdout } = await new Deno.Command(PYTHON, {
      args: [
        ...[
          "-m",
          "pytest",
          "tests/compatibility/",
          "-q",
          "--tb=short",
          "-p",
          "no:cacheprovider",
          "--transport=jsonrpc",
        ],
        `--sut-host=http://127.0.0.1:${host.addr.port}`,
        `--compatibility-report=${report}`,
      ],
      cwd: KIT,
      env: { PYTHONDONTWRITEBYTECODE: "1" },
    }).output();
    const printed = new TextDecoder().decode(stdout);
    const { per_requirement } = JSON.parse(await Deno.readTextFile(`${report}.json`).catch(() => printed)) as Report;
    const must = Object.entries(per_requirement).filter(([, { level }]) => level === "MUST");
    const failed = must.filter(([, { status }]) => status === "FAIL");
    assertEquals(failed.map(([id]) => id).sort(), listed().sort(), printed);
    const met = must.filter(([, { status }]) => status === "PASS").length;
    console.log(
      `The kit of A2A: ${met} of ${must.length} MUST are met, ${failed.length} are listed, the others do not apply`,
    );
  },
});
