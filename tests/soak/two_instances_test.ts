/** Two instances and a balancer on one machine from the lines of operations.md, with other ports. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { denokvProgram, NO_DENOKV } from "../support/denokv.ts";
import { isInstalled } from "../support/installed.ts";
import {
  ChildProcess,
  Connector,
  eventually,
  freePort,
  messageTo,
  newAgent,
  pair,
  ROOT,
  tempFolder,
  within,
} from "../support/process.ts";

const START_MS = 60_000;
const MESSAGES = 40;
const TEXT = Deno.readTextFileSync(`${ROOT}/docs/operations.md`);
const SECTION = TEXT.slice(TEXT.indexOf("### The port between instances"), TEXT.indexOf("### denokv"));
const PORTS = new Map(["4512", "8787", "8788", "8789", "8798", "8799", "9464"].map((port) => [port, `${freePort()}`]));
const [STORE = "", FIRST = "", SECOND = "", BALANCER = "", CHECK = ""] = [...SECTION.matchAll(/^```sh\n([^]*?)^```$/gm)]
  .map(([, block = ""]) =>
    block.replace(/:(\d{4})\b|\bPORT=(\d{4})/g, (found, ...[a, b]: string[]) => {
      const port = a ?? b ?? "";
      return found.replace(port, PORTS.get(port) ?? port);
    })
  );

/** The last line takes the place of the shell. */
const replaced = (block: string) => block.replace(/^PORT=/m, "exec env PORT=");

const denokv = await denokvProgram();
const hasAll = denokv !== null && await isInstalled("caddy") && await isInstalled("curl");
if (!hasAll) console.log(`skipped: the lines for two instances; needs caddy and curl, or ${NO_DENOKV}`);

Deno.test({
  name: "two instances and a balancer start from the lines of operations.md, and messages cross the link",
  ignore: !hasAll,
  async fn() {
    await using folder = await tempFolder();
    const programs = `${folder.path}/programs`, deno = Deno.execPath();
    await Deno.mkdir(programs);
    const program = (name: string, text: string) =>
      Deno.writeTextFile(`${programs}/${name}`, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    // The task itself, not a process that starts it: a test ends only what it started.
    const { command } = JSON.parse(Deno.readTextFileSync(`${ROOT}/deno.json`)).tasks.start;
    const task = `cd ${ROOT}; exec env ${command.replace(" deno run ", ` ${deno} run `)}`;
    await program("npx", `[ "$*" = "-y deno@2.9.6 task start" ] || exit 9; ${task}`);
    await program("svc", `exec ${deno} run --quiet -A ${ROOT}/svc.ts "$@"`);
    await program("denokv", `exec ${denokv} "$@"`);
    const env = {
      HOME: folder.path,
      DENO_DIR: Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`,
      PATH: `${programs}:${Deno.env.get("PATH")}`,
      AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "1000",
    };
    const type = (block: string) => new ChildProcess(["-euc", `cd ${folder.path}\n${block}`], env, "sh");
    await using store = type(STORE.replace("denokv --", "exec denokv --"));
    await within(START_MS, "denokv listens", store.stderr.match(/Listening on/));
    await using first = type(replaced(FIRST));
    await within(START_MS, "the first instance listens", first.stdout.match(/^listening on/m));
    await using second = type(replaced(SECOND));
    await within(START_MS, "the second instance listens", second.stdout.match(/^listening on/m));
    await using balancer = type(BALANCER.replace("caddy run", "exec caddy run"));
    const url = `http://127.0.0.1:${PORTS.get("8787")}`;
    const isReady = () => fetch(`${url}/readyz`).then((answer) => answer.ok || undefined, () => undefined);
    await eventually(START_MS, "the balancer passes requests on", isReady).catch((cause) => {
      throw new Error(balancer.printed, { cause });
    });
    const metrics = async () => await (await fetch(`http://127.0.0.1:${PORTS.get("9464")}/metrics`)).text();
    await eventually(
      START_MS,
      "a link",
      async () => (await metrics()).includes("\nsvc_instance_links 1\n") || undefined,
    );
    await using check = type(CHECK);
    const { code } = await within(START_MS, CHECK, check.status);
    assertEquals(code, 0, check.printed);
    for (const line of ["svc_instance_links 1", "svc_instance_links_missing 0"]) {
      assertStringIncludes(check.stdout.text, `${line}\n`);
    }
    const [apiKey = ""] = /svc_pat_[A-Za-z0-9_-]{43}/.exec(check.stdout.text) ?? [];
    const place = { registryUrl: url, proxyUrl: url };
    const [a, b] = [await newAgent(place, apiKey, "a"), await newAgent(place, apiKey, "b")];
    await pair(a, b);
    const connector = await Connector.open(place, b);
    for (let n = 0; n < MESSAGES; n++) assertEquals((await a.client.sendMessage(messageTo(b))).delivered, true);
    assertEquals(connector.frames.length, MESSAGES);
    await connector.close();
  },
});
