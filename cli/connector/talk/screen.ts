/** The view on a real terminal: its log and keys, for a connector of this process and for one that runs elsewhere. */
import { sleep } from "../../../shared/clock.ts";
import { LocalDown } from "../../../shared/client/errors.ts";
import { call, type LocalCalls, post } from "../../../shared/client/local_client.ts";
import { PageCode } from "../../../shared/client/local_shapes.ts";
import { ulidSource } from "../../../shared/protocol/ids.ts";
import { effectiveConfig } from "../../account/config_store.ts";
import type { AgentFolder } from "../../agents/agent_store.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import { openPage } from "../../files/open_page.ts";
import { parseWord } from "../../command_line/numbers.ts";
import { NOTIFY, readProfile } from "../../files/profile.ts";
import type { Keyboard } from "../../terminal/keyboard.ts";
import { onStop } from "../../terminal/interrupt.ts";
import { pairedFields } from "../events.ts";
import { runForMessages } from "../exec.ts";
import { endedPeers, presentPeers, readPeers } from "../peers/peers.ts";
import { type Status, statusOf } from "../status.ts";
import { Notifier } from "./notifier.ts";
import { Talk } from "./talk.ts";
import type { TalkAgent } from "./talk_agent.ts";
import { viewOf } from "./view.ts";

/**
 * Time between two looks at the status of a connector elsewhere. With more, the screen shows an old status for longer.
 */
const STATUS_EVERY_MS = 1_000;

export interface ScreenOptions {
  /** How to tell a person of messages, one of `NOTIFY`; without it the profile decides. */
  notify?: string | undefined;
  /**
   * Use keys even if the system does not say whether this process is in the foreground. In the background they would
   * take what a person types for another program.
   */
  keys?: boolean;
  /** How many agents are shown; one if absent. */
  agents?: number;
}

/** @throws {CliError} `CLI_USAGE` */
export async function openScreen(ctx: Context, options: ScreenOptions, stop: () => void) {
  const term = ctx.env("TERM") ?? "", isDumb = term === "dumb";
  const keyboard = isDumb ? null : await usableKeyboard(ctx, options.keys === true);
  const view = viewOf({
    clock: ctx.clock,
    terminal: ctx.terminal,
    json: ctx.out.json,
    colour: ctx.env("NO_COLOR") === undefined && !isDumb,
    isDumb,
    live: (columns) => {
      const live = talk.live(columns);
      if (live !== null) notifier.title(talk.title());
      return live;
    },
  });
  const write = (sequence: string) => isDumb || view.signal(sequence);
  const how = options.notify === undefined ? readProfile(ctx).notify : parseWord(NOTIFY, options.notify, "--notify");
  const notifier = new Notifier(ctx.clock, write, how, term);
  const talk = new Talk({
    clock: ctx.clock,
    view,
    newId: ulidSource(() => ctx.clock.now(), (count) => ctx.random.bytes(count)),
    agents: options.agents ?? 1,
    hasKeys: keyboard !== null,
    withHere: (text) => ctx.out.withHere(text),
    arrived: (agent, unread) => notifier.arrived(agent, unread),
    stop,
  });
  let release = () => {};
  return {
    view,
    talk,
    open: () => {
      if (keyboard !== null) release = keyboard.open((bytes) => talk.receive(bytes), stop);
    },
    close: () => {
      release();
      talk.close();
      notifier.close();
      return view.stop();
    },
  };
}

export function talkAgent(
  ctx: Context,
  folder: AgentFolder,
  calls: LocalCalls,
  status: () => Status | null,
): TalkAgent {
  return {
    name: folder.name,
    humanName: effectiveConfig(ctx).humanName ?? "someone",
    calls,
    peers: () => readPeers(folder),
    status,
    invite: async () => {
      const { createPairInvite, mayNotInvite } = await import("../../account/pair_invite.ts");
      try {
        const { words } = await createPairInvite(ctx, calls);
        return ctx.out.commandLine(words, { isHere: false });
      } catch (error) {
        if (mayNotInvite(error)) return null;
        throw error;
      } finally {
        // The progress of a long call would otherwise be printed over the live line.
        ctx.out.finish();
      }
    },
    openPage: async () => await openPage(ctx, folder, await call(calls, PageCode, post("/v1/page-codes", {}))),
  };
}

/**
 * Shows the view of a connector that runs elsewhere, until Ctrl-C or `q`, which do not stop that connector.
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_CONNECTOR_DOWN` when the connector ends
 */
export async function attachScreen(
  ctx: Context,
  folder: AgentFolder,
  calls: LocalCalls,
  options: ScreenOptions & { program: string | null },
): Promise<void> {
  const end = new AbortController();
  const screen = await openScreen(ctx, options, () => end.abort());
  const forget = onStop(ctx, () => end.abort(), () => screen.talk.discard());
  try {
    let status: Status | null = await statusOf(calls);
    const agent = talkAgent(ctx, folder, calls, () => status);
    const met = new Set(Object.values(presentPeers(agent.peers())).map(({ did }) => did));
    screen.open();
    screen.talk.add(agent);
    const failed = (why: string) => screen.view.event("exec_failed", { why });
    if (options.program !== null) void runForMessages(ctx, calls, options.program, failed, end.signal);
    for (let wasOnline = false; !end.signal.aborted;) {
      const isOnline = status?.connection.state === "connected";
      if (isOnline !== wasOnline) screen.view.event(isOnline ? "connected" : "disconnected");
      wasOnline = isOnline;
      await sleep(ctx.clock, STATUS_EVERY_MS, end.signal);
      // A connector that is stopped with Ctrl-Z, or slow, has not ended, and the person could not start another one.
      status = await statusOf(calls).catch((error) => {
        if (error instanceof LocalDown && error.silentPid !== null) return null;
        throw error;
      });
      const peers = agent.peers();
      for (const [peer, { did, humanName, removed }] of Object.entries(endedPeers(peers))) {
        if (met.delete(did) && !removed) screen.view.event("pair_ended", { peer, humanName });
      }
      for (const [alias, peer] of Object.entries(presentPeers(peers))) {
        const { did } = peer, isShown = met.has(did) || screen.talk.isOfPaste(did);
        if (isShown === null) continue;
        met.add(did);
        if (isShown) continue;
        screen.view.event("paired", pairedFields(alias, peer));
        screen.talk.paired(folder.name, did);
      }
    }
  } catch (error) {
    if (!(error instanceof LocalDown)) throw error;
    throw new CliError("CLI_CONNECTOR_DOWN", `The connector of ${folder.name} has ended`, {
      fix: `Start it: svc connector start ${folder.name}`,
    });
  } finally {
    end.abort();
    forget();
    await screen.close();
  }
}

/**
 * Returns the keyboard if this process may use it, because the system stops a process in the background that reads it.
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
