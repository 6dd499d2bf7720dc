/**
 * `svc connector start`: runs the connector of an agent and shows it on the terminal, until it ends or a signal stops
 * it. agent_connector.ts starts the connector itself.
 */
import type { HttpResponse } from "../../shared/client/http.ts";
import type { Context } from "../context.ts";
import { CliError, EXIT } from "../errors.ts";
import type { Keyboard } from "../terminal/keyboard.ts";
import { type RunningConnector, startAgentConnector } from "./agent_connector.ts";
import { ConsoleKeys, type ConsoleKeysDeps } from "./console_keys.ts";
import { type ConsoleView, viewOf } from "./console_view.ts";
import { reportDefects } from "./defects.ts";
import type { EmitEvent } from "./events.ts";
import { ConnectorClient } from "./local_api/client.ts";
import { pairingHint, ticketLines } from "./local_api/pairing_hint.ts";
import { presentPeers, readPeers } from "./peers.ts";
import { checkSave, givesRuntime, type StartOptions } from "./start_options.ts";
import { statusLine } from "./status.ts";

const SAVE_HINT = "          To keep these runtime settings for later starts: add --save.";

const REPLIES_HINT =
  "          The runtime's answers go back to the peers that asked. To keep them here: --replies off.";

/** What the command that starts a connector provides. */
export interface StartDeps {
  /** Registers a function that stops the connector. Returns a function that removes it. */
  onStop(stop: () => void): () => void;
  /** The messages in a response of `GET /v1/inbox` as lines. */
  messageLines(response: HttpResponse): string[][];
}

/** Runs the connector of an agent until it is stopped or fails. Returns the exit code. */
export async function startConnector(
  ctx: Context,
  name: string,
  options: StartOptions,
  { onStop, messageLines }: StartDeps,
): Promise<number> {
  checkSave(options);
  const keyboard = await usableKeyboard(ctx, options.keys === true);
  let running: RunningConnector | null = null;
  let release = () => {};
  const view = viewOf({
    clock: ctx.clock,
    terminal: ctx.terminal,
    json: ctx.out.json,
    line: () => running === null || running.connector.isOver ? null : statusLine(running.connector.status()),
  });
  const tell: EmitEvent = (event, fields) => view.event(event, fields);
  const nextLines = (peer: string) => [
    `          To send it a message: ${ctx.out.commandLine(["send", peer, "Hello", "--agent", name])}`,
  ];
  const onTicket = (ticket: string, until: string) => void ticketLines(ticket, until).then((lines) => view.show(lines));
  let isStopped = false;
  const forget = onStop(() => {
    isStopped = true;
    void running?.stop();
  });
  const endReports = reportDefects(tell);
  try {
    running = await startAgentConnector(ctx, name, options, {
      tell,
      onTicket,
      onPaired: (alias) => view.show(nextLines(alias)),
    });
    if (isStopped) void running.stop();
    const hints = [
      ...running.connector.status().runtime.replies ? [REPLIES_HINT] : [],
      ...givesRuntime(options) && !options.save ? [SAVE_HINT] : [],
    ];
    view.show([...pairingHint(running.folder, keyboard !== null), ...hints]);
    if (keyboard !== null) release = await useKeys(ctx, running, { view, keyboard, messageLines, nextLines });
    const why = await running.ended;
    if (why !== null) throw why;
    return EXIT.done;
  } finally {
    release();
    forget();
    endReports();
    view.stop();
  }
}

/**
 * The keyboard, if this process may use it: a process in the background would be stopped when it reads.
 *
 * @throws {CliError} `CLI_USAGE` when keys are wanted and there is no terminal
 */
async function usableKeyboard({ keyboard = null, out }: Context, isWanted: boolean): Promise<Keyboard | null> {
  if (keyboard === null || out.json) {
    if (isWanted) throw new CliError("CLI_USAGE", "--keys needs a terminal for input and output, without --json");
    return null;
  }
  return await keyboard.isInForeground() ?? isWanted ? keyboard : null;
}

interface KeysDeps extends Pick<StartDeps, "messageLines">, Pick<ConsoleKeysDeps, "nextLines"> {
  view: ConsoleView;
  keyboard: Keyboard;
}

/** Handles keys until the connector ends. Returns a function that restores the terminal. */
async function useKeys(
  ctx: Context,
  { connector, folder, stop }: RunningConnector,
  { view, keyboard, messageLines, nextLines }: KeysDeps,
): Promise<() => void> {
  const client = await ConnectorClient.of(ctx, folder);
  if (client === null) return () => {};
  const keys = new ConsoleKeys({
    clock: ctx.clock,
    show: (lines) => view.show(lines),
    call: (method, target, body) => client.call(method, target, body),
    peers: () => presentPeers(readPeers(folder)),
    unread: async (limit) => messageLines(await client.send("GET", `/v1/inbox?unread=true&limit=${limit}`)),
    nextLines,
    proxyOrigin: connector.options.proxy.origin,
    stop: () => void stop(),
  });
  const restore = keyboard.open((bytes) => keys.receive(bytes), () => void stop());
  return () => {
    restore();
    keys.close();
  };
}
