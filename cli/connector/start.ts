/**
 * `svc connector start`: runs the connectors of one or more agents and shows them on the terminal, until they end or a
 * signal stops them. agent_connector.ts starts a connector, fleet.ts several.
 */
import { join } from "node:path";
import { AGENT_FILES } from "../../shared/client/agent_files.ts";
import { AgentStore } from "../agents/agent_store.ts";
import { boundLog } from "../autostart/service_log.ts";
import type { Context } from "../context.ts";
import { CliError, EXIT, nameAgentIn } from "../errors.ts";
import { onStop } from "../terminal/interrupt.ts";
import { confirmStart, type RunningConnector, startAgentConnector } from "./agent_connector.ts";
import { reportDefects } from "./defects.ts";
import type { EmitEvent } from "./events.ts";
import { programOf, runForMessages } from "./exec.ts";
import { Fleet } from "./fleet.ts";
import { proxyAddress } from "./file_credentials.ts";
import type { RegistryTrust } from "./registry_trust.ts";
import { checkSave, givesRuntime, refuseOptionsOfOne, type StartOptions } from "./start_options.ts";
import { edgeOf } from "./talk/log_text.ts";
import { openScreen, talkAgent } from "./talk/screen.ts";
import { layOut } from "../terminal/text_width.ts";

/**
 * Runs the connectors of these agents, or of all, and returns the exit code.
 *
 * @throws {CliError} `CLI_USAGE` when several agents get an option for one, `CLI_AGENT_UNKNOWN`
 * @throws the first failure when all named agents have failed
 */
export async function startConnectors(
  ctx: Context,
  wanted: readonly string[] | "all",
  options: StartOptions,
): Promise<number> {
  const [only, second] = wanted === "all" ? [] : wanted;
  const isOne = only !== undefined && second === undefined;
  checkSave(options);
  const program = await programOf(ctx, options.exec);
  const store = new AgentStore(ctx);
  if (!isOne) {
    refuseOptionsOfOne(ctx, options);
    // Mistakes in the command line or the configuration end the command. Later failures end only the connector of one
    // agent.
    for (const name of wanted === "all" ? [] : wanted) await store.open(name);
    proxyAddress(ctx, options["proxy-ws-url"]);
  }
  let stop = () => {};
  // Without those that were deleted, because the terminal would say that they are started again.
  const names = async () => (await store.names()).agents.filter((name) => wanted === "all" || wanted.includes(name));
  const present = await names(), agreed = new Set<string>();
  for (const name of ctx.confirm === null || ctx.out.json ? [] : present) {
    const isAgreed = await confirmStart(ctx, name, options).catch((error) => {
      // What else is wrong with an agent is said when it starts.
      if (error instanceof CliError && error.code === "CLI_PLATFORM_CHANGE") throw error;
      return false;
    });
    // Only then, because unread messages may still come while another connector runs, or a question is open.
    if (isAgreed) agreed.add(name);
  }
  const screen = await openScreen(ctx, { ...options, agents: present.length }, () => stop());
  const { view, talk } = screen;
  const show = ({ connector, folder, calls, ended }: RunningConnector) => {
    if (!ctx.terminal.stdoutIsTerminal || ctx.out.json) return;
    const status = () => {
      try {
        return connector.isOver ? null : connector.status();
      } catch {
        // Reading a store may fail for a moment, and the error would end the view that reports it.
        return null;
      }
    };
    talk.add(talkAgent(ctx, folder, calls, status));
    void ended.then(() => talk.remove(folder.name));
  };
  const hints = new Set<string>();
  const hint = (text: string) => {
    // Once, because the connector of an agent that failed starts again.
    if (!hints.has(text)) view.show(layOut(text, edgeOf(view.columns)));
    hints.add(text);
  };
  const trusts = new Map<string, RegistryTrust>();
  let isStopped = false, unsent = 0;
  const start = async (name: string, emit: EmitEvent) => {
    let replies = false;
    // A later start of the same agent asks nothing, because the view would take the answer.
    const settled = { ...options, yes: agreed.delete(name) || options.yes === true };
    const running = await startAgentConnector({ ...ctx, confirm: null }, name, settled, {
      emit: (event, fields) => {
        emit(event, fields);
        if (event === "started") replies = fields?.replies === true;
        if (event === "paired") talk.paired(name, String(fields?.peer));
      },
      trusts,
      onTicket: (ticket, until) => talk.tickets.show(name, ticket, until),
      // Not of a connector that ends earlier, because it starts again, or its agent was deleted.
      onUnsent: (messages) => unsent += isStopped ? messages : 0,
      onDefault: async () => (await runtimeHint(ctx)).forEach(hint),
    });
    show(running);
    hintsOf(replies, isOne ? "" : `${name} · `, options).forEach(hint);
    if (program !== null) {
      const end = new AbortController();
      void running.ended.then(() => end.abort());
      void runForMessages(ctx, running.calls, program, (why) => emit("exec_failed", { why }), end.signal);
    }
    return running;
  };
  const fleet = new Fleet({
    clock: ctx.clock,
    names,
    start: (agent) => start(agent, (event, fields) => view.event(event, { agent, ...fields })),
    filesOf: (agent) => identityFiles(store, agent),
    emit: (agent, event, fields) => view.event(event, agent === null ? fields : { agent, ...fields }),
    endsWithAgents: wanted !== "all",
  });
  let running: RunningConnector | null = null;
  stop = () => {
    isStopped = true;
    void running?.stop();
    fleet.stop();
  };
  const forget = onStop(ctx, stop, () => talk.discard());
  const defects = reportDefects((event, fields) => view.event(event, fields)), endBound = boundLog(ctx);
  const run = async () => {
    if (isOne) {
      running = await start(only, (event, fields) => view.event(event, fields));
      if (isStopped) void running.stop();
    }
    return await (running?.ended ?? fleet.run());
  };
  try {
    screen.open();
    const failure = await Promise.race([run(), defects.exception]);
    if (failure !== null) throw failure;
    return EXIT.done;
  } catch (error) {
    // The command prints this error, and with `svc join` it does not know the agent.
    if (isOne) nameAgentIn(error, only);
    throw error;
  } finally {
    forget();
    defects.end();
    endBound();
    await screen.close();
    if (unsent > 0 && ctx.terminal.stderrIsTerminal) {
      ctx.out.note(unsent === 1 ? "1 message is not sent yet." : `${unsent} messages are not sent yet.`);
    }
  }
}

function hintsOf(replies: boolean, of: string, options: StartOptions): string[] {
  return [
    ...replies ? [`${of}The runtime's answers go back to the peers that asked. To keep them here: --replies off.`] : [],
    ...givesRuntime(options) && !options.save && !options.inbox
      ? ["To keep these runtime settings for later starts: add --save."]
      : [],
  ];
}

/** Names the runtime that `svc install` would choose, so that a person who wants to use it learns the command. */
async function runtimeHint(ctx: Context): Promise<string[]> {
  const [{ detectAll, likeliest }, { thisMachine }] = await Promise.all([
    import("../platforms/table.ts"),
    import("../platforms/local_machine.ts"),
  ]);
  const found = likeliest(await detectAll(thisMachine(ctx)));
  if (found === null) return [];
  const command = ctx.out.commandLine(["install", "--for", found.platform]);
  return [`${found.name} is installed here. To hand it the messages: ${command}`];
}

async function identityFiles(store: AgentStore, name: string): Promise<string> {
  const { path } = await store.open(name).catch(() => ({ path: null }));
  if (path === null) return "";
  const stats = await Promise.all(
    Object.values(AGENT_FILES).map((file) => Deno.lstat(join(path, file)).catch(() => null)),
  );
  return stats.map((stat) => stat && `${stat.ino} ${stat.size} ${stat.mtime?.getTime()}`).join(", ");
}
