/**
 * Every command of svc that a text of the product names works as it stands. The commands are read from the sources, so a new
 * text fails here until its command is typed: in one of the lists below, or by the test that is named.
 */
import { assert, assertEquals } from "@std/assert";
import { allCommands } from "../../cli/commands/table.ts";
import { PLATFORMS } from "../../cli/platforms/table.ts";
import { PROXY_URL } from "../support/world.ts";
import { exists, readText } from "../tools/markdown.ts";
import { Machine } from "./cli_world.ts";
import { connectorOfAlpha, machineWithAlpha, pairAlpha } from "./connector/local_machine.ts";

const ROOT = new URL("../../", import.meta.url);
const PATHS = new Set((await allCommands()).map(({ path }) => path.join(" ")));
/** Words behind a command that are typed as they stand; all others are prose. */
const LITERALS = "ca|none|apiKey|registryUrl|historyDays|inbox|claude-code|auto|my-agent";
const BEHIND = new RegExp(`^(?: (?:--[a-z-]+|<[^>]+>|\\$\\{[^}]*\\}|-(?![a-z-])|(?:${LITERALS})\\b))*`);

/** Lines that work without a connector, in order; `<>` stands for the word that a person fills in. */
const WITHOUT_CONNECTOR: readonly string[] = [
  "agent list",
  "agent create my-agent",
  "agent auth refresh <my-agent>",
  "agent auth revoke <my-agent>",
  "agent reissue <my-agent>",
  "agent inspect my-agent",
  "agent inspect <my-agent>",
  "agent delete <my-agent>",
  "agent create <second>",
  "agent delete second",
  "api-key list",
  "completions bash",
  "config get registryUrl",
  "explain CLI_BUSY",
  "explain <CLI_BUSY>",
  "install",
  "install --for generic",
  "install --for <generic>",
  "install --for inbox",
  "install --for inbox --agent-name <alpha>",
  "log --export --agent <alpha>",
  "log --help",
  "log <beta> --agent <alpha>",
  "mcp install alpha --for claude-code",
  "mcp install --for claude-code --wake auto",
  "peers --help",
  "profile list",
  "profile set historyDays 30",
  "profile set ca <pem>",
  "profile set ca none",
  "profile set notify off",
  "provider setup --for generic",
  "provider setup --for <generic>",
];

/** Lines for alpha's connector, in order. */
const WITH_CONNECTOR: readonly string[] = [
  "connector",
  "connector <alpha>",
  "connector open",
  "dead-letters",
  "dead-letters --agent <alpha>",
  "inbox",
  "inbox --agent <alpha> --take",
  "a2a add beta",
  "a2a list --agent <alpha>",
  "send beta hi",
  "sent",
  "sent --agent <alpha>",
  "sent --wide",
  "sent <sent> --json",
  "sent --cancel <kept> --agent <alpha>",
  "peers",
  "peers --agent <alpha>",
  "peers block beta",
  "peers unblock beta",
  "peers block beta",
  "peers unblock <beta> --agent <alpha>",
  "peers remove <beta> --agent <alpha>",
  "peers remove gamma",
];

/** Lines of an administrator. */
const OF_ADMIN: readonly string[] = [
  "admin agents list",
  "admin agents revoke stranger",
  "admin issuers",
  "admin people list",
  "admin service list",
  "invite create",
  "invite list",
];

/** Lines of a person with the code of an invite on standard input. */
const OF_NEWCOMER: readonly string[] = ["config init", "invite redeem -"];

/** What a test types elsewhere: with a process that goes on, an account of its own, or a state that takes long to make. */
const ELSEWHERE: Readonly<Record<string, readonly [file: string, typed: string]>> = {
  "admin bootstrap --bootstrap-secret -": ["tests/cli/next_line_test.ts", "[bootstrap = []]"],
  "admin open": ["tests/cli/commands/admin_open_test.ts", '"admin", "open"'],
  "admin people suspend <>": ["tests/cli/account/admin_commands_test.ts", '"people", "suspend", human.did'],
  "admin people restore": ["tests/cli/next_line_test.ts", "[restore = []]"],
  "admin service create": ["tests/cli/account/account_test.ts", '"admin", "service", "create", "proxy-us"'],
  "admin service rotate": ["tests/cli/next_line_test.ts", "[create = [], invite = [], rotate = []]"],
  "config set": ["tests/cli/account/config_test.ts", '"config", "set", "proxyUrl", "https://p.example"'],
  "config set apiKey -": ["tests/cli/account/account_test.ts", '"config", "set", "apiKey", "-"'],
  "connector service install": ["tests/e2e/connector_service_test.ts", '"connector", "service", "install"'],
  "connector service logs <>": ["tests/e2e/connector_service_test.ts", '"connector", "service", "logs", "beta"'],
  "connector service uninstall": ["tests/e2e/connector_service_test.ts", '"connector", "service", "uninstall"'],
  "connector service uninstall <>": ["tests/e2e/connector_service_test.ts", '"service", "uninstall", "beta"'],
  "connector start": ["tests/e2e/day_two_terminal_test.ts", "connector start"],
  "connector start <>": ["tests/e2e/connector_keys_test.ts", '"connector", "start", "alpha"'],
  "connector start <> --port <>": ["tests/e2e/connector_ports_test.ts", '"--port"'],
  "connector status <>": ["tests/cli/terminal/width_test.ts", '"connector", "status", "alpha"'],
  "dead-letters replay": ["tests/cli/next_line_test.ts", "[replay = []]"],
  "inbox --follow --agent <>": ["tests/e2e/connector_keys_test.ts", '"inbox", "--follow", "--agent", "alpha"'],
  "invite create --pair": ["tests/e2e/join_pair_test.ts", '"invite", "create", "--pair"'],
  "join": ["tests/cli/next_line_test.ts", '"join", joinLink'],
  "join -": ["tests/cli/next_line_test.ts", "const join = await step()"],
  "join <> --replace": ["tests/cli/account/join_test.ts", '"--replace"'],
  "mcp --peers": ["tests/e2e/mcp_test.ts", '"--peers"'],
  "mcp --wake-model": ["tests/cli/hosts/wake_install_test.ts", '"--wake-model"'],
  "peers rename <> <> --replaces --agent <>": ["tests/e2e/rollback_test.ts", '"--replaces", "--agent", "alpha"'],
  "reply": ["tests/cli/messages/list_inbox_test.ts", '"reply", `${id}`'],
  "serve": ["tests/e2e/serve_test.ts", "svc (admin bootstrap .*)"],
  "serve --console": ["tests/e2e/serve_test.ts", '"--console"'],
  "store recover": ["tests/e2e/store_test.ts", 'store(kvUrl, "recover")'],
  "uninstall --purge": ["tests/cli/hosts/uninstall_test.ts", '"uninstall", "--purge"'],
};

/** The command at the beginning of a text, with its options and `<>` for each value; `null` for no command. */
function commandIn(text: string): string | null {
  const words = text.split(" ");
  const path = [3, 2, 1].map((n) => words.slice(0, n).join(" ")).find((path) => PATHS.has(path));
  if (path === undefined) return null;
  const [behind = ""] = BEHIND.exec(text.slice(path.length)) ?? [];
  return path + behind.replaceAll(/<[^>]+>|\$\{[^}]*\}/g, "<>");
}

/** The commands in the texts of a file: in sentences behind `svc`, and as words of a suggestion. Examples are no next step. */
function commandsOf(source: string): string[] {
  const code = source.replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, "").replaceAll(
    /examples: \{(?:.*\},?$|[^]*?^ {4}\},)/gm,
    "",
  );
  const sentences = [...code.matchAll(/\bsvc ([a-z0-9-]+(?: (?:<[^>]+>|\$\{[^}]*\}|[\w-]+))*)/g)];
  const suggestions = [...code.matchAll(/(?:next|commandLine)\(\s*\[([^\]]*)/g)].map(([, list = ""]) => {
    const words = list.split(",").map((word) => word.trim()).filter((word) => word !== "" && !word.startsWith("..."));
    return words.map((word) => /^"(.*)"$/.exec(word)?.[1] ?? "<>").join(" ");
  });
  return [...sentences.map(([, text = ""]) => text), ...suggestions].flatMap((text) => commandIn(text) ?? []);
}

/** Every command that a text names, with a file that does. */
async function printed(folder: URL, found = new Map<string, string>()): Promise<Map<string, string>> {
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const file = new URL(name + (isDirectory ? "/" : ""), folder);
    if (isDirectory) await printed(file, found);
    else if (name.endsWith(".ts")) {
      for (const command of commandsOf(await Deno.readTextFile(file))) found.set(command, file.pathname);
    }
  }
  return found;
}

/** Types lines as a person who agrees to every question. */
async function type(machine: Machine, lines: readonly string[], values: Record<string, string> = {}): Promise<void> {
  machine.answers = true;
  for (const line of lines) {
    const typed = line.replaceAll(/<([^>]+)>/g, (_, name) => values[name] ?? name);
    const { code, stdout, stderr } = await machine.svc(...typed.split(" "));
    assertEquals(code, 0, `svc ${line}\n${stdout}${stderr}`);
  }
}

Deno.test("each command that a text names is typed by a test", async () => {
  const texts = new Map<string, string>();
  for (const folder of ["cli/", "registry/", "proxy/", "shared/"]) await printed(new URL(folder, ROOT), texts);
  const lines = [...WITHOUT_CONNECTOR, ...WITH_CONNECTOR, ...OF_ADMIN, ...OF_NEWCOMER].map((line) =>
    line.replaceAll(/<[^>]+>/g, "<>")
  );
  const isTyped = (command: string) => lines.some((line) => line === command || line.startsWith(`${command} `));
  const missing = [...texts].filter(([command]) => !isTyped(command) && !Object.hasOwn(ELSEWHERE, command));
  assertEquals(missing, []);
  assertEquals(Object.keys(ELSEWHERE).filter((command) => isTyped(command) || !texts.has(command)), []);
  for (const [file, typed] of Object.values(ELSEWHERE)) {
    assert(await exists(file) && (await readText(file)).includes(typed), `${file} has no ${typed}`);
  }
});

Deno.test("each command that a text names works as it stands", async () => {
  await using admin = await Machine.ofAdmin();
  await admin.world.agent(undefined, "stranger");
  await type(admin, OF_ADMIN);
  await using newcomer = await Machine.open(admin.world);
  newcomer.stdin = (await admin.json("invite", "create")).invite.code;
  await type(newcomer, OF_NEWCOMER);
  await using machine = await machineWithAlpha(admin.world);
  for (const name of ["beta", "gamma"]) admin.world.connect(await pairAlpha(admin.world, machine, name));
  machine.env.HOME = machine.path("home");
  for (const name of [".openclaw", ".claude"]) await Deno.mkdir(machine.path(`home/${name}`), { recursive: true });
  machine.write("home/.openclaw/openclaw.json", "{}");
  machine.write("pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  // svc install would otherwise find the runtimes that happen to run on this computer.
  const runtimes = Object.values(PLATFORMS).flatMap((one) => one.id === "inbox" ? [] : [one.defaults.baseUrl]);
  const noRuntime = machine.answer(new RegExp(runtimes.join("|")), () => Promise.reject(new TypeError("refused")));
  await type(machine, WITHOUT_CONNECTOR, { pem: machine.path("pem") });
  noRuntime();
  await using _connector = await connectorOfAlpha(admin.world, machine);
  const sent = (await machine.json("send", "beta", "hi")).requestId;
  const restore = machine.answer(new RegExp(PROXY_URL), () => Promise.reject(new TypeError("refused")));
  const kept = (await machine.json("send", "beta", "hi")).requestId;
  restore();
  await type(machine, WITH_CONNECTOR, { sent, kept });
});
