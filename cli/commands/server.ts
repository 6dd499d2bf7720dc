/** `svc serve`, `svc demo` and `svc store …`: the commands that need the server's code. */
import { command } from "../command_line/command.ts";
import type { Context, Programs } from "../context.ts";
import { CliError } from "../errors.ts";
import { onStop } from "../terminal/interrupt.ts";
import { announce, defaultStore, servePlan } from "./serve_plan.ts";

const STORE_OPTION = {
  store: {
    value: "path",
    summary: "The store: a path or a URL (KV_URL, default: that of svc serve)",
    complete: "files",
  },
} as const;

export const COMMANDS = [
  command({
    path: ["serve"],
    summary: "Run registry and proxy as one server, until Ctrl-C",
    details: [
      "Each option sets one variable; every other variable of the server comes from the environment",
      "(docs/operations.md). Without --store and KV_URL the store is in the data folder of the user.",
    ],
    options: {
      "public-url": {
        value: "origin",
        summary: "The address that clients use; part of each identity (REGISTRY_URL, PROXY_URL)",
      },
      host: { value: "address", summary: "Address to listen on (HOST, default 127.0.0.1)" },
      port: { value: "n", summary: "Port, 0 for a free one (PORT, default 8787)" },
      store: { value: "path", summary: "The store: a path, :memory: or a URL (KV_URL)", complete: "files" },
      service: {
        value: "name",
        summary: "all, registry or proxy (SVC_SERVICE, default all)",
        complete: ["all", "registry", "proxy"],
      },
      environment: {
        value: "name",
        summary: "local, dev or production (ENVIRONMENT, default local)",
        complete: ["local", "dev", "production"],
      },
      "behind-proxy": {
        summary: "Trust X-Forwarded-For of a front on this machine (TRUSTED_PROXIES=127.0.0.1,::1)",
      },
      metrics: { value: "host:port", summary: "Serve metrics and readiness there too (METRICS_LISTEN)" },
      console: { summary: "Serve the console of svc admin open (CONSOLE=on)" },
      "access-log": { summary: "Log each success (ACCESS_LOG=on)" },
    },
    examples: {
      "svc serve": "For agents of this machine, at http://127.0.0.1:8787",
      "svc serve --behind-proxy --public-url https://svc.example": "Behind a tunnel or front with TLS",
    },
    async run(ctx, { options }) {
      const programs = programsOf(ctx);
      const plan = servePlan(ctx, options, await programs.environment());
      const { variables, optionOf } = plan;
      const server = await programs.serve({ variables, optionOf, purpose: "service" });
      const stopped = Promise.withResolvers<void>();
      onStop(ctx, () => stopped.resolve());
      try {
        const { address, metricsAddress = null } = server;
        announce(ctx, { ...plan, address, metricsAddress, isOpen: await server.bootstrapOpen() });
        await stopped.promise;
      } finally {
        await server.stop();
      }
    },
  }),
  command({
    path: ["demo"],
    summary: "Two agents exchange a message on this machine; ends by itself",
    details: [
      "Uses a server with a store in memory on a free port of this machine.",
      "Its agents have files while it runs; it leaves none.",
    ],
    options: {
      "temp-dir": {
        value: "path",
        summary: "Folder for demo files, created if absent (default: that of the system for temporary files)",
        complete: "files",
      },
    },
    examples: { "svc demo": "See identity, pairing, message, receipt, question and answer over MCP, and revocation" },
    async run(ctx, { options }) {
      const programs = programsOf(ctx);
      const { runDemo } = await import("../demo/demo.ts");
      await runDemo(ctx, programs, options["temp-dir"]);
    },
  }),
  command({
    path: ["store", "inspect"],
    summary: "Count the records of each kind in the store, and their bytes",
    options: STORE_OPTION,
    examples: { "svc store inspect": "See what grows, and the people with most revocations" },
    run: (ctx, { options }) => workOnStore(ctx, "inspect", options.store),
  }),
  command({
    path: ["store", "recover"],
    summary: "Create a new API key for the first admin when all are lost",
    options: STORE_OPTION,
    examples: { "svc store recover": "Get back in; revoke the lost keys afterwards" },
    run: (ctx, { options }) => workOnStore(ctx, "recover", options.store),
  }),
  command({
    path: ["store", "export"],
    summary: "Write every record as JSON lines; keep them private, because they hold the signing key",
    options: {
      ...STORE_OPTION,
      out: {
        value: "file",
        summary: "New file that only its owner can read (default: standard output)",
        complete: "files",
      },
    },
    examples: { "svc store export --out backup.jsonl": "Make a backup while the server is stopped" },
    run: (ctx, { options }) =>
      workOnStore(ctx, "export", options.store, options.out === undefined ? [] : ["--out", options.out]),
  }),
  command({
    path: ["store", "import"],
    summary: "Read an export from standard input into an empty store",
    options: STORE_OPTION,
    examples: { "svc store import --store new.kv <backup.jsonl": "Restore a backup" },
    run: (ctx, { options }) => workOnStore(ctx, "import", options.store),
  }),
];

/** Runs a command of `deploy_store.ts` on the store of `svc serve`, unless an option or the environment names another. */
async function workOnStore(
  ctx: Context,
  name: string,
  store: string | undefined,
  more: string[] = [],
): Promise<number> {
  const programs = programsOf(ctx);
  const path = store ?? (await programs.environment())("KV_URL") ?? defaultStore(ctx);
  // An export is JSON lines in any case.
  const json = ctx.out.json && name !== "export" ? ["--json"] : [];
  return await programs.store([name, `--store=${path}`, ...more, ...json]);
}

/** @throws {CliError} `CLI_NO_SERVER` */
function programsOf({ programs }: Context): Programs {
  if (programs) return programs;
  throw new CliError("CLI_NO_SERVER", "This svc is the command alone, without the server");
}
