/**
 * `--exec`: runs a program that the person chose when messages arrive. Its environment has numbers and names, never a
 * text of a peer, because a shell or a model that reads it could follow what a stranger wrote.
 */
import { isAbsolute } from "node:path";
import { sleep } from "../../shared/clock.ts";
import { LocalDown } from "../../shared/client/errors.ts";
import { call, get, type LocalCalls } from "../../shared/client/local_client.ts";
import { InboxPage, type LocalMessage } from "../../shared/client/local_shapes.ts";
import type { Context } from "../context.ts";
import { CONNECTOR_LIMITS as LIMIT } from "./limits.ts";
import { CliError, describe } from "../errors.ts";
import { isShownAlias } from "./peers/aliases.ts";
import { statusOf } from "./status.ts";
import { Unseen } from "./unseen.ts";

const WAIT_S = 25;
const RETRY_MS = 2_000;
/** A program that runs longer is ended, because further messages wait for its end. */
const RUN_MS = 60_000;
/** Environment variables of svc that the program gets unchanged. */
const PASSED = ["PATH", "HOME", "LANG", "TMPDIR"] as const;

/** @throws {CliError} `CLI_USAGE` for what is no program at an absolute path */
export async function checkProgram(program: string): Promise<void> {
  // Deno splits the list of programs that it may start at commas, so a path with a comma could not be permitted.
  const isPath = isAbsolute(program) && !program.includes(",");
  if (isPath && await Deno.stat(program).then(({ isFile }) => isFile, () => false)) return;
  const problem = isPath ? ": there is no program at" : " needs the absolute path of a program, without a comma, not";
  throw new CliError("CLI_USAGE", `--exec${problem} "${program}"`);
}

/**
 * The program of `--exec`; `null` without the option.
 *
 * @throws {CliError} `CLI_USAGE` also where this svc may not start it
 */
export async function programOf({ exec }: Context, program: string | undefined): Promise<string | null> {
  if (program === undefined) return null;
  await checkProgram(program);
  if (await exec?.isAllowed(program) === true) return program;
  throw new CliError("CLI_USAGE", "--exec needs the installed svc, from npm or in a service of that one", {
    fix: "This one may start no other program.",
  });
}

/**
 * Runs the program for the newest unread message, until `signal` aborts or a runtime takes the messages. All messages
 * that arrive during a run cause one more run together.
 *
 * @param failed called with the reason when the program did not end well
 * @param which only messages of this sender and conversation (default: all)
 */
export async function runForMessages(
  ctx: Context,
  calls: LocalCalls,
  program: string,
  failed: (why: string) => void,
  signal: AbortSignal,
  which: { from?: string | undefined; conversation?: string | undefined } = {},
): Promise<void> {
  const unseen = new Unseen();
  let newest: LocalMessage | undefined;
  while (!signal.aborted) {
    try {
      const query = { ...which, limit: LIMIT.pageMessagesMax, after: unseen.after, wait: WAIT_S };
      const { messages, more } = await call(calls, InboxPage, { ...get("/v1/inbox", query), waitSeconds: WAIT_S });
      newest = unseen.news({ messages, more }).at(-1) ?? newest;
      const message = newest;
      if (message === undefined || more || signal.aborted) continue;
      const { inbox } = await statusOf(calls);
      newest = undefined;
      const why = await runOnce(ctx, program, variablesOf(ctx, calls.agentName, message, inbox.waiting), signal);
      if (why !== null && !signal.aborted) failed(why);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof LocalDown)) {
        const { code, cause } = describe(error);
        failed(cause);
        if (code === "CONNECTOR_RUNTIME_PUSHES") return;
      }
      await sleep(ctx.clock, RETRY_MS, signal);
    }
  }
}

function variablesOf(ctx: Context, agent: string, message: LocalMessage, unread: number): Record<string, string> {
  const { id, requestId, from, isReply } = message;
  const passed = PASSED.flatMap((name) => {
    const value = ctx.env(name);
    return value === undefined ? [] : [[name, value]];
  });
  return {
    ...Object.fromEntries(passed),
    SVC_CONFIG_DIR: ctx.configDir,
    SVC_AGENT: agent,
    // No long alias, because a contact chooses the name in its alias, and a model could follow a sentence there.
    SVC_PEER: isShownAlias(from.alias) ? from.alias : from.agentDid,
    SVC_MESSAGE_ID: String(id),
    SVC_REQUEST_ID: requestId,
    SVC_IS_REPLY: isReply ? "1" : "0",
    SVC_UNREAD: String(unread),
  };
}

/** Returns why the program did not end well; `null` when it did. */
async function runOnce(
  { clock, exec }: Context,
  program: string,
  variables: Record<string, string>,
  stopped: AbortSignal,
): Promise<string | null> {
  const late = new AbortController();
  const cancel = clock.after(RUN_MS, () => late.abort());
  try {
    const code = await exec?.run(program, variables, AbortSignal.any([late.signal, stopped]));
    if (late.signal.aborted) return `${program} did not end within ${RUN_MS / 1000} s`;
    return code === 0 ? null : `${program} ended with ${code}`;
  } catch {
    return `${program} could not be started`;
  } finally {
    cancel();
  }
}
