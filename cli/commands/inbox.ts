/**
 * `svc inbox`: received messages. `--take` marks messages read only after they are printed, because a message whose
 * print failed would otherwise be lost.
 */
import { sleep } from "../../shared/clock.ts";
import { isRevoked } from "../../shared/client/refusals.ts";
import { LocalMessage } from "../../shared/client/local_shapes.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { ulidSource } from "../../shared/protocol/ids.ts";
import { callForText, get, type LocalCalls, readMessages } from "../../shared/client/local_client.ts";
import { type AgentFolder, chosenAgent } from "../agents/agent_store.ts";
import { AGENT_OPTION, command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { parseCount, parseMessageNumber } from "../command_line/numbers.ts";
import { type Access, access, connectorOf } from "../connector/attach.ts";
import { programOf, runForMessages } from "../connector/exec.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../connector/limits.ts";
import { findPeerEver, readPeers } from "../connector/peers/peers.ts";
import { statusOf } from "../connector/status.ts";
import { Unseen } from "../connector/unseen.ts";
import type { Context } from "../context.ts";
import { CliError, describeFor } from "../errors.ts";
import { messageLines, readPage, type Received, type ReceivedPage } from "../messages/received.ts";
import { stopSignal } from "../terminal/interrupt.ts";
import { EXEC_OPTION, VIEW_OPTIONS } from "./connector/connector.ts";

const { pageMessages: LISTED, pageMessagesMax: MAX_LISTED } = LIMIT;
/** Pause before the last message in a pipe. With less, `head -2` ends only after it, and what it left out counts as read. */
const READER_MS = 200;
/**
 * Seconds for which printed messages are held until they are marked read. With less, another program takes what a slow
 * reader gets too. After a kill of this process they stay hidden for this time.
 */
const HELD_SECONDS = 20;
const QUEUED_S = LIMIT.queuedWaitMs / 1000;

export const COMMANDS = [
  command({
    path: ["inbox"],
    summary: "Print the unread messages, oldest first; --take marks them read",
    details: [
      `If no connector runs, svc runs one for ${QUEUED_S} s first, so messages that wait at the server arrive and are stored here.`,
      "The messages of an agent with a runtime go to that runtime.",
    ],
    args: { id: { summary: "Number of one message, to print it whole, read or unread", optional: true } },
    options: {
      ...AGENT_OPTION,
      from: { value: "peer", summary: "Only messages of this peer, an alias or a DID", complete: "peers" },
      conversation: { value: "id", summary: "Only messages of this conversation" },
      limit: { value: "count", summary: `Most messages to list, 1 to ${MAX_LISTED} (default ${LISTED})` },
      read: { summary: "List read messages, whose content is kept as long as svc log says" },
      follow: { summary: "Wait for more messages until Ctrl-C; on a terminal with the view of a running connector" },
      take: { summary: "Mark the printed messages read" },
      ...VIEW_OPTIONS,
      ...EXEC_OPTION,
      "allow-insecure": REGISTRY_OPTIONS["allow-insecure"],
    },
    examples: {
      "svc inbox": "Show what is unread",
      "svc inbox 17": "Show message 17 whole",
      "svc inbox --take": "Show what is unread, and mark it read",
      "svc inbox --follow --take --json": "Print each message as one JSON line",
    },
    async run(ctx, { args: { id }, options }) {
      const { read, follow, take, from, conversation } = options;
      const hasFilter = [from, conversation, options.limit].some((given) => given !== undefined);
      if (id !== undefined && (read || follow || hasFilter)) {
        throw new CliError("CLI_USAGE", "A message that is named by its number takes only --take");
      }
      if (read && (follow || take)) throw new CliError("CLI_USAGE", "--read lists messages that are read already");
      if (options.exec !== undefined && !follow) throw new CliError("CLI_USAGE", "--exec is for --follow");
      const number = id === undefined ? null : parseMessageNumber(id, "svc inbox shows the numbers.");
      const query = { ...options, limit: parseCount(options.limit ?? `${LISTED}`, "--limit", MAX_LISTED) };
      const folder = await chosenAgent(ctx, options.agent);
      if (number !== null) {
        return await withStored(ctx, folder, (connector) => showMessage(ctx, connector, number, take));
      }
      const program = await programOf(ctx, options.exec);
      if (follow && !take && !hasFilter && ctx.out.columns !== null && !ctx.out.json) {
        const running = await connectorOf(ctx, folder);
        // Only for an agent that reads its own messages, because the view does not show those that go to a runtime.
        if (running !== null && (await statusOf(running)).runtime.url === null) {
          const { attachScreen } = await import("../connector/talk/screen.ts");
          return await attachScreen(ctx, folder, running, { ...options, program });
        }
      }
      const listerOf = (connector: LocalCalls) => {
        const sender = from === undefined ? undefined : findPeerEver(readPeers(folder), from) ?? from;
        return new Lister(ctx, connector, { ...query, from: sender });
      };
      const arrived = async ({ isHost }: Access, stop?: Promise<null>) => {
        if (!isHost) return;
        ctx.out.doing("Waiting for queued messages");
        await Promise.race([sleep(ctx.clock, LIMIT.queuedWaitMs), ...stop === undefined ? [] : [stop]]);
      };
      if (!follow) {
        return await withStored(ctx, folder, async (connector) => {
          if (connector.options.offline) return await listerOf(connector).list();
          await arrived(connector);
          const unread = await warnIfApart(ctx, connector);
          await listerOf(connector).list(hasFilter ? 0 : unread);
        });
      }
      using stopped = stopSignal(ctx);
      const stop = new Promise<null>((resolve) => stopped.signal.addEventListener("abort", () => resolve(null)));
      await using connector = await access(ctx, folder);
      await arrived(connector, stop);
      const lister = listerOf(connector);
      const ended = new AbortController();
      const which = { from: lister.query.from, conversation };
      if (program !== null) {
        void runForMessages(ctx, connector, program, (why) => ctx.out.warn(why), ended.signal, which);
      }
      try {
        while (!stopped.signal.aborted) {
          const page = await Promise.race([lister.next(LIMIT.waitMaxMs / 1000), stop]);
          if (page === null || !await lister.print(page.messages)) return;
          if (!page.more) await sleep(ctx.clock, LIMIT.waitPauseMs);
        }
      } finally {
        ended.abort();
      }
    },
  }),
];

/** Works with the agent's connector; once the server has revoked the agent, with what is stored here. */
async function withStored(ctx: Context, folder: AgentFolder, work: (connector: Access) => Promise<void>) {
  try {
    await using connector = await access(ctx, folder);
    return await work(connector);
  } catch (error) {
    if (!isRevoked(error)) throw error;
    const { cause, fix } = describeFor(folder.name, error);
    ctx.out.warn(`This shows only what is stored here, because the server refuses ${folder.name}: ${cause}. ${fix}`);
  }
  await using stored = await access(ctx, folder, { offline: true });
  await work(stored);
}

/**
 * Says that messages may wait at a server without a link, because an empty list would look as if there were none.
 * Returns how many unread messages are stored here.
 */
async function warnIfApart(ctx: Context, connector: LocalCalls): Promise<number> {
  const { connection: { state, problem }, inbox, proxy } = await statusOf(connector);
  if (inbox.problem !== null) ctx.out.warn(`New messages cannot be stored here: ${inbox.problem}`);
  if (state === "connected") return inbox.waiting;
  const why = problem === null ? `there is no link to ${proxy.url}` : problem;
  ctx.out.warn(`New messages may wait at the server, because ${why}`);
  return inbox.waiting;
}

async function showMessage(ctx: Context, connector: LocalCalls, id: number, takes: boolean): Promise<void> {
  const { body: message, json } = await callForText(connector, LocalMessage, get(`/v1/inbox/${id}`));
  if (isPrinted(ctx, { message, json }) && takes && message.readAt === null) {
    await readMessages(connector, { ids: [id] });
  }
}

/** Prints a message. Returns false when no one reads the output any longer. */
function isPrinted({ out, clock }: Context, received: Received): boolean {
  if (out.json) return out.jsonLine(received.json);
  return out.peerLines(messageLines(received, out.columns, clock.now()));
}

interface InboxQuery {
  /** DID of the sender; any other text fits no message. */
  from: string | undefined;
  conversation: string | undefined;
  limit: number;
  /** Whether to list read messages in place of unread ones. */
  read: boolean;
  take: boolean;
}

class Lister {
  readonly #unseen = new Unseen();
  readonly #leaseId: string;

  constructor(readonly ctx: Context, readonly connector: LocalCalls, readonly query: InboxQuery) {
    this.#leaseId = ulidSource(() => ctx.clock.now(), (count) => ctx.random.bytes(count))();
  }

  /** @param unread how many are unread; those that are not found then are held by another program */
  async list(unread = 0): Promise<void> {
    const { ctx, connector, query: { limit, read } } = this;
    const found: Received[] = [];
    let more = true;
    while (more && found.length < limit) {
      const page = await this.next(0);
      found.push(...page.messages);
      more = page.more;
    }
    more ||= limit < found.length;
    const shown = await this.#held(found.slice(0, limit));
    if (ctx.out.json) {
      const json = `{"messages":[${shown.map(({ json }) => json).join(",")}],"more":${more}}`;
      await this.#take(shown, ctx.out.jsonLine(json));
      return;
    }
    // A command that was killed holds its messages, which would look as if they were lost.
    const others = unread > 0
      ? `, except ${unread} that others take now, or give back within ${LIMITS.leaseSeconds} s`
      : "";
    if (shown.length === 0) ctx.out.note(read ? "No read messages." : `No unread messages${others}.`);
    const further = read
      ? `svc log --export --agent ${connector.agentName} prints all`
      : "they are listed once these are read";
    if (await this.#print(shown) && more) ctx.out.more("more messages", limit < MAX_LISTED, further);
  }

  /** Returns the new ones of the next messages that match, at most a page. Waits up to `wait` seconds for the first one. */
  async next(wait: number): Promise<ReceivedPage> {
    const { from, conversation, limit, read } = this.query;
    const { after } = this.#unseen;
    const page = await readPage(this.connector, { unread: !read, limit, wait, from, conversation, after });
    const news = this.#unseen.news(page);
    return {
      messages: news.filter(({ message }) => (message.readAt !== null) === read),
      more: page.more && page.messages.length > 0,
    };
  }

  /** Prints messages that no other program has. Returns false when no one reads the output any longer. */
  async print(messages: readonly Received[]): Promise<boolean> {
    return await this.#print(await this.#held(messages));
  }

  /** Prints messages, and marks them read unless their reader has ended, because a pipe holds some that no one read. */
  async #print(messages: readonly Received[]): Promise<boolean> {
    const { ctx, query: { take } } = this;
    for (const [i, received] of messages.entries()) {
      if (take && ctx.out.columns === null && i > 0 && i === messages.length - 1) await sleep(ctx.clock, READER_MS);
      if (isPrinted(ctx, received)) continue;
      if (take) ctx.out.warn("Nothing was marked read, because not all was read; --limit prints fewer messages");
      await this.#take(messages, false);
      return false;
    }
    await this.#take(messages);
    return true;
  }

  /** The messages that this command may take. It holds them, because another program would otherwise act on them too. */
  async #held(messages: readonly Received[]): Promise<readonly Received[]> {
    if (!this.query.take || messages.length === 0) return messages;
    const held = await readMessages(this.connector, { ...this.#request(messages), lease: HELD_SECONDS });
    return messages.filter(({ message }) => held.includes(message.id));
  }

  #request(messages: readonly Received[]) {
    return { ids: messages.map(({ message }) => message.id), leaseId: this.#leaseId };
  }

  /** Marks messages read, or makes them unread again when they were not printed. */
  async #take(messages: readonly Received[], isShown = true): Promise<void> {
    if (!this.query.take || messages.length === 0) return;
    const request = this.#request(messages);
    const read = await readMessages(this.connector, isShown ? request : { ...request, lease: 0 });
    const lost = isShown ? request.ids.filter((id) => !read.includes(id)) : [];
    if (lost.length > 0) this.ctx.out.warn(`Another program has read ${lost.join(", ")} at the same time`);
  }
}
