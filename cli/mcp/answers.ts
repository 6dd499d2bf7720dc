/**
 * Tracks the messages in answers that are under way (D-395). A tool only leases the messages that it returns. They are
 * marked read when the answer has left this process, and released when the call is cancelled, the host has gone or the
 * server ends. If they were marked first, messages that no model ever saw would be lost, while their senders read that
 * they were processed.
 */
import type { JSONRPCMessage, RequestId } from "@modelcontextprotocol/server";
import { type LocalCalls, readMessages } from "../../shared/client/local_client.ts";
import { ToolError } from "./tool_result.ts";

/**
 * Seconds of a lease. A host that takes longer to read gets the messages again, as repeats. After a kill of this
 * process the messages stay hidden for this time.
 */
const LEASE_SECONDS = 20;

export interface AnsweredCall {
  /** Aborted when the call is cancelled, or the MCP client has gone. */
  signal: AbortSignal;
  answer: Pick<LeasedAnswer, "hold">;
}

export class Answers {
  readonly #open = new Map<RequestId, LeasedAnswer>();
  readonly #ending = new Set<Promise<unknown>>();

  constructor(readonly connector: LocalCalls, readonly newId: () => string) {}

  /**
   * The answer to a request. `signal` aborts when it is cancelled or its client has gone.
   *
   * @throws {ToolError} while another request has the ID, because the answer to one would mark what the other holds. A
   *   request that begins again after a question to the person has the same signal.
   */
  begin(request: RequestId, signal: AbortSignal): LeasedAnswer {
    if ((this.#open.get(request)?.signal ?? signal) !== signal) {
      throw new ToolError(`A request with the ID ${request} is under way. Call the tool again with a new ID.`);
    }
    const answer = new LeasedAnswer(this.connector, this.newId(), signal, (work) => this.#await(work));
    this.#open.set(request, answer);
    signal.addEventListener("abort", () => {
      // Does nothing while the answer is being written, because only `write` knows whether it has left.
      if (this.#open.get(request) !== answer) return;
      this.#open.delete(request);
      answer.end(false);
    });
    return answer;
  }

  /**
   * Writes a message of the server. If it is an answer, the messages that it holds are marked read once `write` has
   * resolved, and released when it fails.
   */
  async write(message: JSONRPCMessage, write: () => Promise<void>): Promise<void> {
    const request = "result" in message || "error" in message ? message.id : undefined;
    const answer = request === undefined ? undefined : this.#open.get(request);
    if (request === undefined || answer === undefined) return await write();
    this.#open.delete(request);
    let hasLeft = false;
    try {
      await write();
      hasLeft = hasData(message);
    } finally {
      answer.end(hasLeft);
    }
  }

  /** Resolves when every answer that has ended is marked or released. */
  async settled(): Promise<void> {
    await Promise.all(this.#ending);
  }

  #await(work: Promise<unknown>): void {
    // A failure is ignored, because the lease then ends by itself, and its messages are unread again.
    const ending = work.catch(() => {}).finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }
}

/** An answer and its lease. Its requests can be repeated, because a lease always concerns the same messages. */
class LeasedAnswer {
  readonly #ids: number[] = [];
  #isOver = false;

  constructor(
    readonly connector: LocalCalls,
    readonly leaseId: string,
    readonly signal: AbortSignal,
    readonly settle: (work: Promise<unknown>) => void,
  ) {}

  /** Leases unread messages for this answer. Returns the IDs of those that no other program has. */
  async hold(ids: readonly number[]): Promise<number[]> {
    if (ids.length === 0) return [];
    const { connector, leaseId } = this;
    const held = await readMessages(connector, { ids: [...ids], leaseId, lease: LEASE_SECONDS });
    this.#ids.push(...held);
    // The call was cancelled while the connector leased the messages, so they are released.
    if (this.#isOver) this.#settle({ lease: 0 });
    return held;
  }

  end(hasLeft: boolean): void {
    this.#isOver = true;
    this.#settle(hasLeft ? {} : { lease: 0 });
  }

  #settle(how: { lease?: 0 }): void {
    const { connector, leaseId } = this, ids = this.#ids;
    if (ids.length > 0) this.settle(readMessages(connector, { ids, leaseId, ...how }));
  }
}

/**
 * Returns true when an answer is the result of a tool, so that the model sees the messages in it. An error shows none,
 * also when the library sends it in place of a result.
 */
function hasData(message: JSONRPCMessage): boolean {
  return "result" in message && (message.result as { structuredContent?: unknown }).structuredContent !== undefined;
}
