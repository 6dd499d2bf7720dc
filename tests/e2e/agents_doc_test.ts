/**
 * Runs every program of docs/agents.md against real connectors, and computes the request of docs/protocol.md again.
 * No payload of a peer stops one of them: tests/soak/hostile_readers_test.ts has the long run.
 */
import { assert, assertEquals } from "@std/assert";
import { fromBase64Url, sha256, utf8Bytes } from "../../shared/protocol/base64url.ts";
import { messageTarget } from "../../shared/protocol/message_context.ts";
import { PairedAgents } from "../cli/connector/paired_agents.ts";
import { bundledProgram, output } from "../cli/program.ts";
import { ANSWERING, background, block, HAS_PYTHON } from "../support/page_programs.ts";
import { eventually, ROOT, tempFolder } from "../support/process.ts";
import { vectors } from "../support/vectors.ts";
import { HostileReaders } from "./hostile_readers.ts";
import { longTest } from "../support/trials.ts";

const END_MS = 90_000;
if (!HAS_PYTHON) console.log("The Python programs of docs/agents.md are NOT run here: python3 is not installed");

Deno.test("the Python programs have at most 30 lines, and the JavaScript program 15", () => {
  for (const [name, most] of [["answer.py", 30], ["ask.py", 30], ["agent.mjs", 15]] as const) {
    assert(block(name).trim().split("\n").length <= most, name);
  }
});

Deno.test("each program reads what a peer may send, then answers each question with its answer", async (t) => {
  await using readers = await HostileReaders.open();
  const { agents, alpha } = readers;
  for (const program of ANSWERING) {
    await t.step({
      name: program.name,
      ignore: program.ignore,
      async fn() {
        await using _answering = program.start({ dir: agents.dir, svc: agents.words, agent: "beta" });
        // Each payload costs the shell several processes, so it gets a part of the crafted ones.
        const isShell = program.name === "answer.sh";
        await readers.sendAll(program.name, { seed: 1, count: 0, step: isShell ? 160 : 40 });
        for (let n = 0; n < 2; n++) {
          const text = "?".repeat(n + 1);
          const { reply, state } = await alpha.json("POST", "/v1/outbound?wait=60", { to: "beta", text });
          assertEquals([reply?.text, reply?.error], [program.answer("alpha", text), null], state);
        }
        await readers.allRead();
      },
    });
  }
  await t.step({
    name: "ask.py",
    ignore: !HAS_PYTHON,
    async fn() {
      await readers.answerAll({ seed: 1, count: 0, step: 80 });
      await using _answering = ANSWERING.find(({ name }) => name === "answer.py")!
        .start({ dir: agents.dir, svc: agents.words, agent: "beta" });
      const { code, stdout, stderr } = await readers.ask("How long is this?");
      assertEquals([code, stdout], [0, "17 characters\n"], stderr);
    },
  });
});

Deno.test({
  name: "the Python programs wait as long as a refusal asks, and ask.py takes what it prints",
  ignore: !HAS_PYTHON,
  async fn() {
    await using folder = await tempFolder();
    const read: number[] = [];
    let sends = 0, isError = false;
    const answers: Record<string, (query: URLSearchParams, body: Record<string, unknown>) => unknown> = {
      "/v1/inbox": () => ({ messages: [{ id: sends + 1, text: "hello", auto: false }], more: false }),
      "/v1/inbox/read": (_, { ids }) => {
        read.push(...ids as number[]);
        return { read: ids };
      },
      "/v1/outbound": () => {
        sends++;
        const error = isError ? { code: "BUSY", message: "busy" } : null;
        return { state: "processed", reply: { id: 77, text: "5 characters", error } };
      },
    };
    const refusals = [{ "Retry-After": "1" }, {}];
    await Deno.mkdir(`${folder.path}/agents/beta`, { recursive: true });
    /** A server for one program: what a program asked just before it was killed may arrive after its end. */
    const serve = async () => {
      const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
        const { pathname, searchParams } = new URL(request.url);
        const body = request.method === "POST" ? await request.json() : {};
        const refusal = pathname === "/v1/outbound" ? refusals.shift() : undefined;
        if (refusal !== undefined) {
          return Response.json({ error: { code: "X", message: "no" } }, { status: 429, headers: refusal });
        }
        return Response.json(answers[pathname]?.(searchParams, body));
      });
      const file = { url: `http://127.0.0.1:${server.addr.port}`, token: "t", pid: Deno.pid };
      await Deno.writeTextFile(`${folder.path}/agents/beta/connector.json`, JSON.stringify(file));
      return server;
    };
    for (const name of ["answer.py", "ask.py"]) await Deno.writeTextFile(`${folder.path}/${name}`, block(name));
    const env = { SVC_CONFIG_DIR: folder.path };
    {
      // The first refusal is waited for, the second one has no wait: the program goes on with the next message.
      await using _server = await serve();
      await using _answering = background("python3", [`${folder.path}/answer.py`, "beta"], env);
      await eventually(END_MS, "two answers", () => sends >= 2 || undefined);
    }
    assertEquals(refusals, []);
    read.length = 0;
    await using _server = await serve();
    const ask = () => output("python3", [`${folder.path}/ask.py`, "beta", "alpha", "?"], env);
    refusals.push({ "Retry-After": "1" });
    assertEquals(await ask(), { code: 0, stdout: "5 characters\n", stderr: "" });
    isError = true;
    assertEquals(await ask(), { code: 1, stdout: "", stderr: "5 characters\n" });
    assertEquals(read, [77, 77]);
    refusals.push({});
    assertEquals((await ask()).code, 1);
  },
});

Deno.test("answer.sh waits as long as a refusal asks, and goes on after one without a wait", async () => {
  await using folder = await tempFolder();
  const message = (id: number) => `{"id":${id},"from":{"alias":"alpha"},"isReply":false,"auto":false,"text":"?"}`;
  // A program in place of svc: its first reply is refused for a second, the one to message 2 without a wait.
  const stub = `
svc() {
  case "$1 $2" in
    "inbox --agent") printf '%s\\n' '${message(1)}' '${message(2)}' '${message(3)}' ;;
    "reply 2") echo "error: PROXY_AUTH_FORBIDDEN: not paired" >&2; return 3 ;;
    *) echo "$2" >> "${folder.path}/tries"
       [ "$(wc -l < "${folder.path}/tries")" -gt 1 ] || { echo "  Wait 1 s, then run the command again." >&2; return 1; } ;;
  esac
}`;
  const { code, stderr } = await output("sh", ["-c", `${stub}\n${block("answer.sh").split("\n").slice(1).join("\n")}`]);
  assertEquals([code, stderr], [0, "error: PROXY_AUTH_FORBIDDEN: not paired\n"]);
  assertEquals(Deno.readTextFileSync(`${folder.path}/tries`), "1\n1\n3\n");
});

longTest("two shell programs do not answer each other's answers", async () => {
  await using agents = await PairedAgents.open(await bundledProgram());
  await using _alpha = await agents.connector("alpha");
  await using _beta = await agents.connector("beta");
  const shell = ANSWERING.find(({ name }) => name === "answer.sh")!;
  const answering = (agent: string) => shell.start({ dir: agents.dir, svc: agents.words, agent });
  await using _answeringBeta = answering("beta");
  await using _answeringAlpha = answering("alpha");
  assertEquals((await agents.run("alpha", `svc send beta "Which day is it?"`)).code, 0);
  // The answer reaches alpha's program, which takes it and sends nothing.
  await eventually(END_MS, "the answer is read", async () => {
    const read = await agents.run("alpha", "svc inbox --read");
    return read.stdout.split("\n").some((line) => /^ {4}\d{4}-/.test(line)) || undefined;
  });
  const sent = await agents.run("alpha", "svc sent --json");
  assertEquals(JSON.parse(sent.stdout).messages.length, 1);
});

Deno.test("the request of protocol.md is the one that the rules give", async () => {
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
  const page = await Deno.readTextFile(`${ROOT}/docs/protocol.md`);
  assert(page.includes(agentKey.seed) && page.includes(`the ${body.length} bytes`), "key and body");
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
