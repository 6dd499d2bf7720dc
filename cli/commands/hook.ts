/**
 * `svc hook claude-code`: waits until an agent has a new unread message, and wakes Claude Code. One process waits for
 * each session. It records a message before it announces it, because a lost wake-up only leaves the message unread, but
 * a repeated one costs the model a turn. Uses a running connector only, and marks nothing read.
 */
import { join } from "node:path";
import { call, get } from "../../shared/client/local_client.ts";
import { InboxPage, type LocalMessage } from "../../shared/client/local_shapes.ts";
import { sha256 } from "../../shared/protocol/base64url.ts";
import { DAY_MS, settledWithin, sleep, timeLeft } from "../../shared/clock.ts";
import { topLevelMembers, tryParse } from "../../shared/protocol/json_text.ts";
import { ApiError, LocalDown } from "../../shared/client/errors.ts";
import { type AgentFolder, chosenAgent } from "../agents/agent_store.ts";
import { connectorOf } from "../connector/attach.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../connector/limits.ts";
import { findPeersEver, readPeers } from "../connector/peers/peers.ts";
import { Unseen } from "../connector/unseen.ts";
import type { Context } from "../context.ts";
import { CliError, EXIT } from "../errors.ts";
import { ensureConfigDir } from "../files/config_dir.ts";
import { withLock } from "../files/lock.ts";
import { ensureDirectory, PrivateFolder, removeOlder } from "../files/private_files.ts";
import { announcement } from "../messages/announcement.ts";
import { AGENT_ARG, command } from "../command_line/command.ts";
import { parseCount, parseNames } from "../command_line/numbers.ts";
import { onStop } from "../terminal/interrupt.ts";
import * as z from "zod";

/** Default and longest wait, in seconds. With more, Claude Code ends the hook first, because it waits one hour. */
const MAX_WAIT = 3_500;

/** The exit code with which a hook of Claude Code wakes the model; standard error is the text for it. */
const WAKE = 2;

export const COMMANDS = [
  command({
    path: ["hook", "claude-code"],
    summary: "Wait for a message, as a hook of Claude Code that wakes its model",
    details: [
      "svc mcp install --for claude-code --wake auto adds it to the hooks. Exits with 2 and one line on standard error when an",
      "unread message arrives, else with 0 and no output. It marks nothing read, and runs no connector.",
    ],
    args: { agent: AGENT_ARG },
    options: {
      "unless-inbox": {
        summary: "Do nothing in a session with an inbox, through which svc mcp --wake-model wakes the model",
      },
      peers: { value: "names", summary: "Only messages of these peers: aliases or DIDs, separated by commas" },
      timeout: { value: "seconds", summary: `Longest wait, 1 to ${MAX_WAIT} (default ${MAX_WAIT})` },
    },
    examples: { "svc hook claude-code alpha": "Wait for messages of alpha; the input names the session" },
    async run(ctx, { args, options }) {
      const stopped = Promise.withResolvers<void>();
      const forget = onStop(ctx, () => stopped.resolve());
      try {
        const hasInbox = ctx.os !== "windows" && ctx.env("CLAUDE_CODE_MESSAGING_SOCKET") !== undefined;
        if (options["unless-inbox"] && hasInbox) return EXIT.done;
        const seconds = parseCount(options.timeout ?? `${MAX_WAIT}`, "--timeout", MAX_WAIT);
        const only = parseNames(options.peers, "--peers", LIMIT.sendersAtOnce);
        const line = await Promise.race([waitForMessages(ctx, args.agent, seconds, only), stopped.promise]);
        if (typeof line !== "string") return EXIT.done;
        ctx.terminal.stderr(`${line}\n`);
        return WAKE;
      } catch {
        // Errors are silent, because their text and exit code would reach the model at the end of every turn.
        return EXIT.done;
      } finally {
        forget();
      }
    },
  }),
];

/** Bytes of the input that are read. With more, a wrong input could fill the memory. */
export const INPUT_BYTES_MAX = 64 * 1024;
/** How long the input is read. With more, a hook whose input never ends waits instead of watching the inbox. */
const INPUT_MS = 10_000;
/**
 * Time between two looks for a connector. With less, each session reads the disk all the time; with more, messages wait
 * longer after the connector has started.
 */
export const CONNECTOR_LOOK_MS = 5_000;
/** Pages of unread messages that are read at once. With more, the announcement of a full inbox takes seconds. */
const PAGES_MAX = 50;
/** With less, a session that is continued later would announce its messages again; with more, the files pile up. */
export const SESSION_KEPT_MS = 30 * DAY_MS;

/** Bytes of the file of a session. With fewer, one could not hold the keys of a full inbox. */
const SESSION_BYTES = 1024 ** 2;
/** Characters of the digest that names the files of a session. With fewer, two sessions could share their files. */
const NAME_LENGTH = 16;

const Session = z.object({
  /** The keys of the messages that have been announced and were unread then. */
  announced: z.array(z.string()),
  /** When the model was woken, in milliseconds since the Unix epoch. */
  wakeUps: z.array(z.number()),
});
type Session = z.infer<typeof Session>;

/**
 * Returns the line that announces new unread messages; `null` when none comes within the time.
 *
 * @throws {CliError} `CLI_USAGE` for input without a session, `CLI_BUSY` when another process waits for the session
 * @throws {ApiError} `CONNECTOR_RUNTIME_PUSHES` when the messages go to a runtime
 */
async function waitForMessages(
  ctx: Context,
  agentName: string | undefined,
  seconds: number,
  only: readonly string[] | null,
): Promise<string | null> {
  const left = timeLeft(ctx.clock, seconds * 1000);
  const folder = await chosenAgent(ctx, agentName);
  const name = (await sha256(await sessionOf(ctx))).slice(0, NAME_LENGTH);
  const sessions = new PrivateFolder(ctx, join(folder.path, "hooks"));
  await ensureDirectory(sessions.path, await ensureConfigDir(ctx));
  const wait = async () => {
    await removeOlder(sessions.path, ctx.clock.now() - SESSION_KEPT_MS, /./);
    return await new Waiter(ctx, folder, only, sessions, `${name}.json`).until(left);
  };
  return await withLock(ctx, () => join(sessions.path, `${name}.lock`), wait, () => {}, 0);
}

/** The session of the hook, from standard input. @throws {CliError} `CLI_USAGE` */
async function sessionOf(ctx: Context): Promise<string> {
  const input: { bytes?: Uint8Array } = {};
  await settledWithin(ctx.clock, ctx.stdin(INPUT_BYTES_MAX).then((bytes) => void (input.bytes = bytes)), INPUT_MS);
  // Not parsed as a whole, because the input also has texts of the model and may be cut inside one.
  const text = new TextDecoder().decode(input.bytes);
  const member = topLevelMembers(text).find(({ key }) => key === "session_id");
  const session: unknown = member && JSON.parse(text.slice(member.start, member.end));
  if (typeof session === "string" && session !== "") return session;
  throw new CliError("CLI_USAGE", "The input has no session_id");
}

class Waiter {
  readonly #session: Session;
  #unseen: Unseen;

  constructor(
    readonly ctx: Context,
    readonly folder: AgentFolder,
    /** The only peers whose messages count; `null`: all. */
    readonly only: readonly string[] | null,
    readonly files: PrivateFolder,
    readonly file: string,
  ) {
    // A damaged file counts as that of a new session.
    this.#session = Session.safeParse(tryParse(files.read(file, SESSION_BYTES))).data ?? { announced: [], wakeUps: [] };
    this.#unseen = new Unseen(this.#session.announced);
  }

  /** @param left tells how many milliseconds are left */
  async until(left: () => number): Promise<string | null> {
    const { clock } = this.ctx;
    while (left() > 0) {
      const now = clock.now(), free = this.#freeAt(now);
      if (free > now) {
        await sleep(clock, Math.min(free - now, left()));
        continue;
      }
      const messages = await this.#unread(left);
      if (messages.length > 0) return await this.#announce(messages);
    }
    return null;
  }

  /** The time from which the model may be woken again. */
  #freeAt(now: number): number {
    const recent = this.#session.wakeUps.filter((at) => at > now - LIMIT.hookWakeUpsMs && at <= now);
    return recent.length < LIMIT.hookWakeUps ? now : (recent.at(-LIMIT.hookWakeUps) ?? now) + LIMIT.hookWakeUpsMs;
  }

  /** Returns the new unread messages, or none after a wait. @throws {ApiError} `CONNECTOR_RUNTIME_PUSHES` */
  async #unread(left: () => number): Promise<LocalMessage[]> {
    const { ctx, folder } = this;
    const pause = (ms = CONNECTOR_LOOK_MS) => sleep(ctx.clock, Math.min(ms, left()));
    try {
      const client = await connectorOf(ctx, folder);
      const from = this.only === null ? undefined : findPeersEver(readPeers(folder), this.only).join(",");
      if (client === null || from === "") {
        await pause();
        return [];
      }
      const messages: LocalMessage[] = [];
      let more = true;
      for (let pages = 0; more && pages < PAGES_MAX; pages++) {
        const { after } = this.#unseen;
        const waitMs = pages > 0 ? 0 : Math.min(LIMIT.waitMaxMs, left());
        const query = { unread: true, from, after, limit: LIMIT.pageMessagesMax, wait: Math.ceil(waitMs / 1000) };
        const page = await call(client, InboxPage, { ...get("/v1/inbox", query), waitSeconds: query.wait });
        messages.push(...this.#unseen.news(page));
        more = page.more && page.messages.length > 0;
      }
      // A connector that is ending answers at once, so without a pause this would ask it again and again.
      if (messages.length === 0) await pause(LIMIT.waitPauseMs);
      return messages;
    } catch (error) {
      // The connector ended, or has too many waiting calls, so look again later.
      const isPassing = error instanceof LocalDown || error instanceof ApiError && error.code === "CONNECTOR_BUSY";
      if (!isPassing) throw error;
      // Begins again, because the new ones among the pages that were read are not announced yet.
      this.#unseen = new Unseen(this.#session.announced);
      await pause();
      return [];
    }
  }

  /**
   * Returns the announcement. It is recorded before, because a message that is announced twice costs the model a turn.
   */
  async #announce(messages: readonly LocalMessage[]): Promise<string> {
    const wakeUps = [...this.#session.wakeUps, this.ctx.clock.now()].slice(-LIMIT.hookWakeUps);
    await this.files.writeJson(this.file, { announced: this.#unseen.seen, wakeUps }, SESSION_BYTES);
    return announcement(this.folder.name, messages);
  }
}
