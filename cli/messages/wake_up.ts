/**
 * Waits until an agent has a new unread message, for a hook that wakes a model (D-132). One process waits for a session; a
 * message is announced once in it. Uses a running connector only, and marks nothing read.
 */
import { join } from "node:path";
import * as z from "zod";
import { InboxPage, type LocalMessage } from "../../shared/client/local_shapes.ts";
import { sha256 } from "../../shared/protocol/base64url.ts";
import { settledWithin, sleep } from "../../shared/clock.ts";
import { topLevelMembers } from "../../shared/protocol/json_text.ts";
import { ApiError } from "../../shared/client/errors.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import { chosenAgent } from "../agents/agent_choice.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../connector/limits.ts";
import { bodyOf, checkedBody, ConnectorClient } from "../connector/local_api/client.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { ensureConfigDir } from "../files/config_dir.ts";
import { withLock } from "../files/lock.ts";
import { ensureDirectory } from "../files/private_files.ts";
import { PrivateFolder } from "../files/private_folder.ts";
import { announcement } from "./announcement.ts";

/** Characters of the digest that names the files of a session. */
const NAME_LENGTH = 16;

const Session = z.object({
  /** The highest ID that has been announced. */
  announced: z.int().min(0),
  /** When the model was woken, in milliseconds since the Unix epoch. */
  wakeUps: z.array(z.number()),
});
type Session = z.infer<typeof Session>;

/**
 * Returns the line that announces new unread messages; `null` when there is none within the time, or when another process
 * waits for the session.
 *
 * @throws {CliError} for input without a session, and when the connector pushes the messages to a runtime
 */
export async function waitForMessages(
  ctx: Context,
  agentName: string | undefined,
  seconds: number,
): Promise<string | null> {
  const end = ctx.clock.now() + seconds * 1000;
  const { folder } = await chosenAgent(ctx, agentName);
  const name = (await sha256(await sessionOf(ctx))).slice(0, NAME_LENGTH);
  const sessions = new PrivateFolder(ctx, join(folder.path, "hooks"));
  await ensureDirectory(sessions.path, await ensureConfigDir(ctx));
  const place = () => join(sessions.path, `${name}.lock`);
  return await withLock(
    ctx,
    place,
    async () => {
      await removeOldSessions(sessions.path, ctx.clock.now());
      return await new Waiter(ctx, folder, sessions, `${name}.json`).until(end);
    },
    () => {},
    0,
  );
}

/** The session of the hook, from standard input. @throws {CliError} `CLI_USAGE` */
async function sessionOf(ctx: Context): Promise<string> {
  const reading = ctx.stdin(LIMIT.hookInputBytes);
  const input: { bytes?: Uint8Array } = {};
  await settledWithin(ctx.clock, reading.then((bytes) => void (input.bytes = bytes)), LIMIT.hookInputMs);
  // The input also has texts of the model, and may be cut in one of them.
  const text = new TextDecoder().decode(input.bytes);
  const member = topLevelMembers(text).find(({ key }) => key === "session_id");
  const session: unknown = member && JSON.parse(text.slice(member.start, member.end));
  if (typeof session === "string" && session !== "") return session;
  throw new CliError("CLI_USAGE", "The input has no session_id");
}

class Waiter {
  #session: Session;

  constructor(
    readonly ctx: Context,
    readonly folder: AgentFolder,
    readonly files: PrivateFolder,
    readonly file: string,
  ) {
    this.#session = parsedSession(files.read(file));
  }

  async until(end: number): Promise<string | null> {
    const { clock } = this.ctx;
    for (let now = clock.now(); now < end; now = clock.now()) {
      const free = this.#freeAt(now);
      if (free > now) {
        await sleep(clock, Math.min(free, end) - now);
        continue;
      }
      const messages = await this.#unread(end);
      if (messages.length > 0) return await this.#announce(messages);
    }
    return null;
  }

  /** When the model may be woken again. */
  #freeAt(now: number): number {
    const recent = this.#session.wakeUps.filter((at) => at > now - LIMIT.hookWakeUpsMs && at <= now);
    return recent.length < LIMIT.hookWakeUps ? now : (recent.at(-LIMIT.hookWakeUps) ?? now) + LIMIT.hookWakeUpsMs;
  }

  /** New unread messages; none after a wait. @throws {ApiError} `CONNECTOR_RUNTIME_PUSHES` */
  async #unread(end: number): Promise<LocalMessage[]> {
    const { ctx, folder } = this;
    const pause = (ms = LIMIT.hookLookMs) => sleep(ctx.clock, Math.max(0, Math.min(ms, end - ctx.clock.now())));
    try {
      const client = await ConnectorClient.of(ctx, folder);
      if (client === null) {
        await pause();
        return [];
      }
      const messages: LocalMessage[] = [];
      let more = true;
      for (let pages = 0; more && pages < LIMIT.hookPages; pages++) {
        const after = messages.at(-1)?.id ?? this.#session.announced;
        const seconds = messages.length > 0 ? 0 : Math.ceil(Math.min(LIMIT.waitMaxMs, end - ctx.clock.now()) / 1000);
        const page = await this.#page(client, after, seconds);
        messages.push(...page.messages);
        more = page.more && page.messages.length > 0;
      }
      // A connector that is ending answers at once.
      if (messages.length === 0) await pause(LIMIT.waitPauseMs);
      return messages;
    } catch (error) {
      // The connector ended, or has too many waiting calls: look again later.
      const isPassing = error instanceof CliError && error.code === "CLI_CONNECTOR_DOWN" ||
        error instanceof ApiError && error.code === "CONNECTOR_BUSY";
      if (!isPassing) throw error;
      await pause();
      return [];
    }
  }

  async #page(client: ConnectorClient, after: number, seconds: number): Promise<InboxPage> {
    const query = `unread=true&after=${after}&limit=${LIMIT.pageMessagesMax}&wait=${Math.max(0, seconds)}`;
    const response = await client.send("GET", `/v1/inbox?${query}`, undefined, LIMIT.callTimeoutMs + seconds * 1000);
    return checkedBody(this.folder.name, InboxPage, bodyOf(this.folder.name, response));
  }

  /** Remembers the messages first: a message that is announced twice wakes the model without need. */
  async #announce(messages: readonly LocalMessage[]): Promise<string> {
    const wakeUps = [...this.#session.wakeUps, this.ctx.clock.now()].slice(-LIMIT.hookWakeUps);
    const announced = Math.max(this.#session.announced, ...messages.map(({ id }) => id));
    await this.files.writeJson(this.file, { announced, wakeUps });
    return announcement(this.folder.name, messages);
  }
}

/** A damaged file counts as that of a new session. */
function parsedSession(text: string | null): Session {
  try {
    return Session.parse(JSON.parse(text ?? ""));
  } catch {
    return { announced: 0, wakeUps: [] };
  }
}

/** Removes the files of sessions that have ended long ago. */
async function removeOldSessions(folder: string, now: number): Promise<void> {
  for await (const { name } of Deno.readDir(folder)) {
    const path = join(folder, name);
    const { mtime } = await Deno.lstat(path).catch(() => ({ mtime: null }));
    if (mtime !== null && now - mtime.getTime() > LIMIT.hookKeptMs) await Deno.remove(path).catch(() => {});
  }
}
