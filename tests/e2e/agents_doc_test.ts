/**
 * Runs every program of docs/agents.md against real connectors, and computes its request byte by byte again (D-126).
 */
import { assert, assertEquals } from "@std/assert";
import { shellQuote } from "../../cli/connector/local_api/pairing_hint.ts";
import { fromBase64Url, sha256, utf8Bytes } from "../../shared/protocol/base64url.ts";
import { messageTarget } from "../../shared/protocol/message_context.ts";
import { PairedAgents } from "../cli/connector/paired_agents.ts";
import { bundledProgram, ended, output } from "../cli/program.ts";
import { eventually, ROOT, within } from "../support/process.ts";
import { vectors } from "../support/vectors.ts";

const END_MS = 90_000;
const PAGE = Deno.readTextFileSync(`${ROOT}/docs/agents.md`);
/** The fenced blocks of the page by the name behind their language. */
const BLOCKS = new Map(
  [...PAGE.matchAll(/^```\w+ (\S+)\n(.*?)^```$/gms)].map(([, name = "", text = ""]) => [name, text]),
);
const HAS_PYTHON = await output("python3", ["--version"]).then(({ code }) => code === 0, () => false);
if (!HAS_PYTHON) console.log("The Python programs of docs/agents.md are NOT run here: python3 is not installed");

function block(name: string): string {
  const text = BLOCKS.get(name);
  assert(text !== undefined, `docs/agents.md has no block ${name}`);
  return text;
}

/** A program that ends with the test, with the processes that it has started. */
function background(command: string, args: string[], env: Record<string, string>): AsyncDisposable {
  // A session of its own is a process group of its own.
  const options: Deno.CommandOptions = {
    args: [command, ...args],
    env,
    stdin: "null",
    stdout: "null",
    stderr: "inherit",
  };
  const child = new Deno.Command("setsid", options).spawn();
  return {
    async [Symbol.asyncDispose]() {
      await output("kill", ["-TERM", "--", `-${child.pid}`]);
      await child.status;
    },
  };
}

Deno.test("the Python programs have at most 30 lines", () => {
  for (const name of ["answer.py", "ask.py"]) assert(block(name).trim().split("\n").length <= 30, name);
});

Deno.test({
  name: "the Python programs ask and answer",
  ignore: !HAS_PYTHON,
  async fn() {
    await using agents = await PairedAgents.open(await bundledProgram());
    await using _alpha = await agents.connector("alpha");
    await using _beta = await agents.connector("beta");
    for (const name of ["answer.py", "ask.py"]) await Deno.writeTextFile(`${agents.dir}/${name}`, block(name));
    const env = { SVC_CONFIG_DIR: agents.dir };
    await using _answering = background("python3", [`${agents.dir}/answer.py`, "beta"], env);
    const args = [`${agents.dir}/ask.py`, "alpha", "beta", "How long is this?"];
    const asking = new Deno.Command("python3", { args, env, stdin: "null", stdout: "piped", stderr: "piped" }).spawn();
    const { code, stdout, stderr } = await within(END_MS, "the answer", ended(asking));
    assertEquals([code, stdout], [0, "17 characters\n"], stderr);
  },
});

Deno.test("two shell programs answer a question, and not each other's answers", async () => {
  await using agents = await PairedAgents.open(await bundledProgram());
  const words = [agents.program.command, ...agents.program.args].map(shellQuote).join(" ");
  const lines = [`svc() { ${words} "$@"; }`, ...block("answer.sh").split("\n").slice(1)];
  await using _alpha = await agents.connector("alpha");
  await using _beta = await agents.connector("beta");
  const answering = (agent: string) => {
    const text = lines.join("\n").replaceAll("--agent beta", `--agent ${agent}`);
    return background("sh", ["-c", text], { SVC_CONFIG_DIR: agents.dir });
  };
  await using _answeringBeta = answering("beta");
  const { code, stdout, stderr } = await agents.run("alpha", `svc send beta --wait "Which day is it?"`);
  assertEquals(code, 0, stderr);
  assert(/^\d{4}-\d\d-\d\d\n$/.test(stdout), stdout);
  await using _answeringAlpha = answering("alpha");
  assertEquals((await agents.run("alpha", `svc send beta "And now?"`)).code, 0);
  // The answer to the second question reaches alpha's program, which takes it and sends nothing.
  await eventually(END_MS, "the answer is read", async () => {
    const read = await agents.run("alpha", "svc inbox --read");
    return read.stdout.split("\n").filter((line) => /^ {4}\d{4}-/.test(line)).length >= 2 || undefined;
  });
  const sent = await agents.run("alpha", "svc sent --json");
  assertEquals(JSON.parse(sent.stdout).messages.length, 2);
});

Deno.test("the request of the page is the one that the rules give", async () => {
  const { agentKey, ait } = vectors("proof");
  const [head = "", body = ""] = block("request").trim().split("\n\n");
  const [start = "", ...rows] = head.split("\n");
  const headers = new Headers(
    rows.map((row): [string, string] => [row.slice(0, row.indexOf(":")), row.slice(row.indexOf(":") + 1)]),
  );
  assertEquals(start, `POST ${await messageTarget(headers)} HTTP/1.1`);
  assertEquals(start.split("?ctx=")[1]?.split(" ")[0], await sha256(block("context").trim()));
  const header = (name: string) => headers.get(name) ?? "";
  const canonical = [
    "SVC-PROOF-V1",
    "POST",
    `https://${header("host")}`,
    start.split(" ")[1],
    header("x-svc-timestamp"),
    header("x-svc-nonce"),
    await sha256(body),
    header("x-svc-recipient-agent-did"),
    await sha256(ait),
  ].join("\n");
  assertEquals(block("canonical").trim(), canonical);
  assertEquals(header("x-svc-body-sha256"), await sha256(body));
  const jwk = { kty: "OKP", crv: "Ed25519", x: agentKey.x };
  const key = await crypto.subtle.importKey("jwk", jwk, "Ed25519", false, ["verify"]);
  assert(
    await crypto.subtle.verify(
      "Ed25519",
      key,
      fromBase64Url(header("x-svc-proof")) ?? new Uint8Array(),
      utf8Bytes(canonical),
    ),
  );
});
