/**
 * Real programs, each with a model that this test plays, so without a login. In a terminal, a message of a peer begins a
 * turn of an idle session of Claude Code or Codex, and the model reads the line and no text of the peer. Codex cuts long
 * results, so it is also checked that its model gets each message whole.
 */
import { assert, assertEquals } from "@std/assert";
import { RunningConnector, svc } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { pairedNames } from "../e2e/harness.ts";
import { isInstalled } from "../support/installed.ts";
import { eventually, Service, tempFolder } from "../support/process.ts";

const hasTerminal = await isInstalled("script");
const LINE = 'svc: 1 new message for alpha from "beta". Call read_inbox. It is from another agent, not your user.';
const KEY = "sk-ant-a-key-of-this-test-only";
const TURN_MS = 60_000;

/** A model: it keeps what it was sent, and answers with the events that `answer` makes of it. */
function model(answer: (body: string) => [name: string, data: object][]) {
  const requests: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    if (request.method !== "POST") return Response.json({ data: [], models: [] });
    const body = await request.text();
    requests.push(body);
    const text = answer(body).map(([name, data]) =>
      `event: ${name}\ndata: ${JSON.stringify({ type: name, ...data })}\n\n`
    );
    return new Response(text.join(""), { headers: { "Content-Type": "text/event-stream" } });
  });
  return {
    requests,
    url: `http://127.0.0.1:${server.addr.port}`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

const message = {
  id: "m",
  type: "message",
  role: "assistant",
  model: "x",
  content: [],
  usage: { input_tokens: 1, output_tokens: 1 },
};
const CLAUDE_ANSWER: [string, object][] = [
  ["message_start", { message: { ...message, stop_reason: null, stop_sequence: null } }],
  ["content_block_start", { index: 0, content_block: { type: "text", text: "" } }],
  ["content_block_delta", { index: 0, delta: { type: "text_delta", text: "Yes." } }],
  ["content_block_stop", { index: 0 }],
  ["message_delta", { delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 1 } }],
  ["message_stop", {}],
];

/** The events of a model that calls a tool, or says that it has ended. */
function codexEvents(call: { name: string; arguments: string } | null): [string, object][] {
  const item = call === null
    ? { type: "message", id: "m", role: "assistant", content: [{ type: "output_text", text: "Yes." }] }
    : { type: "function_call", id: "f", call_id: "c", namespace: "mcp__svc_alpha", ...call };
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  return [
    ["response.created", { response: { id: "r" } }],
    ["response.output_item.done", { item }],
    ["response.completed", { response: { id: "r", usage } }],
  ];
}

function codexAnswer(body: string): [string, object][] {
  const { input = [] } = JSON.parse(body) as { input?: { type?: string }[] };
  // The first turn calls a tool, which tells the server its thread.
  const isFirst = body.includes("Who are you here?") && input.every(({ type }) => type !== "function_call_output");
  return codexEvents(isFirst ? { name: "whoami", arguments: "{}" } : null);
}

/** A program in a terminal of its own, ended with its children. */
function inTerminal(command: string, cwd: string, env: Record<string, string>): AsyncDisposable {
  const child = new Deno.Command("script", {
    args: ["-qec", command, "/dev/null"],
    cwd,
    env: { TERM: "xterm-256color", COLUMNS: "120", LINES: "40", PATH: Deno.env.get("PATH") ?? "", ...env },
    clearEnv: true,
    stdin: "piped",
    stdout: "null",
    stderr: "null",
  }).spawn();
  return {
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.stdin.close().catch(() => {});
      await child.status;
    },
  };
}

/** Alpha for a program with its files in a home of its own, and beta that writes to it. */
async function people(service: Service) {
  const folder = await tempFolder();
  const program = await bundledProgram();
  const dir = folder.path;
  await pairedNames(service, dir, ["alpha", "beta"]);
  const [home, project] = [`${dir}/home`, `${dir}/project`];
  for (const path of [home, project]) await Deno.mkdir(path);
  const env = { HOME: home, CODEX_HOME: `${home}/.codex` };
  return {
    home,
    project,
    env,
    install: (...words: string[]) => svc(dir, ["mcp", "install", "alpha", "--wake", "auto", ...words], env, program),
    write: async (text: string) => {
      await using _beta = await RunningConnector.start(dir, "beta", ["--inbox"], { program });
      await svc(dir, ["send", "alpha", text, "--agent", "beta"], {}, program);
    },
    isReady: () => Deno.stat(`${dir}/agents/alpha/connector.json`).then(() => true as const, () => undefined),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

function codexSettings(url: string, project: string): string {
  const lines = [
    'model = "gpt-5"',
    'model_provider = "own"',
    'approval_policy = "never"',
    'sandbox_mode = "danger-full-access"',
    "check_for_update_on_startup = false",
    "[model_providers.own]",
    'name = "own"',
    `base_url = "${url}/v1"`,
    'wire_api = "responses"',
    `[projects."${project}"]`,
    'trust_level = "trusted"',
  ];
  return `${lines.join("\n")}\n`;
}

/** Codex leaves a server and its updater behind, each with its pid in a file. */
function daemonsOf(codexHome: string): AsyncDisposable {
  return {
    async [Symbol.asyncDispose]() {
      for (const name of ["daemon-updater", "daemon"]) {
        const text = await Deno.readTextFile(`${codexHome}/app-server-daemon/${name}.pid`).catch(() => null);
        if (text !== null) Deno.kill((JSON.parse(text) as { pid: number }).pid, "SIGTERM");
      }
    },
  };
}

/** Waits for a turn with the line, and checks that no text of the peer was in it. */
async function isWoken(requests: readonly string[]): Promise<void> {
  const inJson = JSON.stringify(LINE).slice(1, -1);
  await eventually(
    TURN_MS,
    "the model reads the line",
    () => requests.some((body) => body.includes(inJson)) || undefined,
  );
  assertEquals(requests.filter((body) => body.includes("a secret text")), []);
}

Deno.test({
  name: "Claude Code begins a turn when a message arrives in its idle session",
  ignore: !hasTerminal || !await isInstalled("claude"),
  async fn() {
    await using service = await Service.open();
    await using at = await people(service);
    await using claude = model(() => CLAUDE_ANSWER);
    await Deno.mkdir(`${at.home}/.claude`);
    const trusted = { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true };
    const customApiKeyResponses = { approved: [KEY.slice(-20)], rejected: [] };
    const known = { hasCompletedOnboarding: true, customApiKeyResponses, projects: { [at.project]: trusted } };
    await Deno.writeTextFile(`${at.home}/.claude.json`, JSON.stringify(known));
    await at.install("--for", "claude-code");
    const env = { ...at.env, ANTHROPIC_BASE_URL: claude.url, ANTHROPIC_API_KEY: KEY };
    await using _session = inTerminal("claude", at.project, env);
    await eventually(TURN_MS, "the server of the session runs", at.isReady);
    await at.write("a secret text");
    await isWoken(claude.requests);
  },
});

Deno.test({
  name: "Codex begins a turn when a message arrives in its idle session",
  ignore: !hasTerminal || !await isInstalled("codex"),
  async fn() {
    await using service = await Service.open();
    await using at = await people(service);
    await using codex = model(codexAnswer);
    const folder = at.env.CODEX_HOME;
    await Deno.mkdir(folder);
    await Deno.writeTextFile(`${folder}/config.toml`, codexSettings(codex.url, at.project));
    await at.install("--for", "codex");
    await using _daemons = daemonsOf(folder);
    await using _session = inTerminal("codex 'Who are you here?'", at.project, at.env);
    const hasCalled = () => codex.requests.some((body) => body.includes("function_call_output")) || undefined;
    await eventually(TURN_MS, "the first turn has called a tool", hasCalled);
    assert(await at.isReady());
    await at.write("a secret text");
    await isWoken(codex.requests);
  },
});

Deno.test({
  name: "Codex shows its model all of each result of read_inbox, so no message is read that it has not shown",
  ignore: !await isInstalled("codex"),
  async fn() {
    await using service = await Service.open();
    await using at = await people(service);
    const outputs: string[] = [];
    await using codex = model((body) => {
      const { input = [] } = JSON.parse(body) as { input?: { type?: string; output?: unknown }[] };
      const last = input.at(-1);
      const output = last?.type === "function_call_output" ? JSON.stringify(last.output) : null;
      if (output !== null) outputs.push(output);
      const isOver = output?.includes("No unread message.");
      return codexEvents(isOver ? null : { name: "read_inbox", arguments: '{"limit":20}' });
    });
    const folder = at.env.CODEX_HOME;
    await Deno.mkdir(folder);
    await Deno.writeTextFile(`${folder}/config.toml`, codexSettings(codex.url, at.project));
    await at.install("--for", "codex");
    // Without this, Codex refuses a tool that it cannot ask about.
    const text = await Deno.readTextFile(`${folder}/config.toml`);
    const always = 'default_tools_approval_mode = "approve"\nstartup_timeout_sec';
    await Deno.writeTextFile(`${folder}/config.toml`, text.replace("startup_timeout_sec", always));
    // A character of Chinese has three bytes, and Codex counts bytes.
    for (let n = 0; n < 9; n++) await at.write(`message-${n} ${"消息".repeat(900)}`);
    await using _daemons = daemonsOf(folder);
    const args = ["exec", "--skip-git-repo-check", "Read them"];
    const env = { PATH: Deno.env.get("PATH") ?? "", ...at.env };
    const { code } = await new Deno.Command("codex", { args, cwd: at.project, env, clearEnv: true, stdin: "null" })
      .output();
    assertEquals(code, 0);
    const shown = outputs.join().match(/message-\d/g) ?? [];
    assertEquals(shown, Array.from({ length: 9 }, (_, n) => `message-${n}`));
    assertEquals(outputs.filter((output) => output.includes("truncated")), []);
  },
});
