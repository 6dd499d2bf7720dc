/**
 * A local agent that speaks A2A 1.0, for example OpenClaw with its A2A channel, or Hermes (D-134). It is asked with
 * `returnImmediately`, so it answers with a task, which the connector follows. It is used only when a person names it,
 * and is never detected.
 */
import { sha256 } from "../../shared/protocol/base64url.ts";
import { A2A_VERSION, A2A_VERSION_HEADER, CARD_PATH, Part, RPC_ERROR, textOfParts } from "./a2a_protocol.ts";
import {
  bearer,
  type PushPlatform,
  senderHeaders,
  type TaskAnswer,
  type TaskCode,
  type TaskProtocol,
  textOf,
} from "./platform.ts";
import { gatewayUrl, openClawSettings } from "./openclaw.ts";
import { changeTo, memberOf, parseSettings, withMember } from "./settings.ts";
import { tryParse } from "../../shared/protocol/json_text.ts";
import * as z from "zod";

/** Name of this program among the peers of a runtime. */
const PEER = "svc";
const HOOK_PATH = "/a2a/v1";

/** Errors after which the same request never succeeds. */
const FINAL: ReadonlySet<number> = new Set(
  (["request", "method", "params", "unsupported", "contentType", "version"] as const).map((name) =>
    RPC_ERROR[name].code
  ),
);

const WITHOUT_RESULT: ReadonlyMap<string, TaskCode> = new Map([
  ["TASK_STATE_FAILED", "TASK_FAILED"],
  ["TASK_STATE_REJECTED", "TASK_REJECTED"],
  ["TASK_STATE_CANCELED", "TASK_CANCELED"],
]);
const WORKING: ReadonlySet<string> = new Set(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"]);
/** States in which a task waits, each with the text for its sender, who would get none when the task says nothing. */
const ASKING: ReadonlyMap<string, string> = new Map([
  ["TASK_STATE_INPUT_REQUIRED", "The agent needs an answer to go on"],
  ["TASK_STATE_AUTH_REQUIRED", "The agent needs a permission to go on"],
]);

const Parts = z.object({ parts: z.array(Part) });
const Task = z.object({
  id: z.string().min(1).max(512),
  status: z.object({ state: z.string(), message: Parts.nullish() }),
  artifacts: z.array(Parts).nullish(),
});
const Failure = z.object({ error: z.object({ code: z.int(), message: z.string() }) });
const Card = z.object({
  supportedInterfaces: z.array(z.looseObject({ protocolBinding: z.string(), protocolVersion: z.string() })),
});

/** Characters of a runtime's error text that are shown. With more, a long one pushes other lines off the terminal. */
const MAX_WHY = 200;

const TASKS: TaskProtocol = {
  answerOf(text) {
    const body = tryParse(text);
    const { data: failure } = Failure.safeParse(body);
    if (failure !== undefined) return errorOf(failure.error);
    const result = memberOf(body, "result");
    const { data: task } = Task.safeParse(memberOf(result, "task") ?? result);
    if (task !== undefined) return answerOfTask(task);
    const { data: message } = Parts.safeParse(memberOf(result, "message"));
    if (message !== undefined) return { kind: "ended", text: textOfParts(message.parts), code: null };
    return { kind: "unclear", why: "the answer is not one of A2A 1.0" };
  },

  poll: (taskId, { hookToken }) => ({
    headers: { "Content-Type": "application/json", ...authorized(hookToken) },
    body: request(taskId, "GetTask", { id: taskId }),
  }),
};

export const A2A: PushPlatform = {
  id: "a2a",
  name: "an A2A agent",
  defaults: { baseUrl: "http://127.0.0.1:18789", hookPath: HOOK_PATH },
  // Long, because an agent may answer only at the end of its run, and a repeated request could start a second run.
  timeoutMs: 120_000,
  needsToken: true,
  repliesByDefault: true,
  tasks: TASKS,
  health: {
    path: CARD_PATH,
    isHealthy(status, body) {
      const { data } = Card.safeParse(tryParse(body));
      return status === 200 &&
        (data?.supportedInterfaces ?? []).some(({ protocolBinding, protocolVersion }) =>
          protocolBinding === "JSONRPC" && protocolVersion.startsWith("1.")
        );
    },
  },

  async request(message, { hookToken }) {
    const { fromDid, session, idempotencyKey: messageId, taskId } = message;
    const body = request(messageId, "SendMessage", {
      message: {
        messageId,
        role: "ROLE_USER",
        // Made from the sender's DID, because a peer with a free choice could join the conversation of another.
        contextId: await contextOf(fromDid, session),
        parts: [{ text: textOf(message) }],
        ...(taskId === undefined ? {} : { taskId }),
      },
      configuration: { returnImmediately: true },
    });
    return { headers: { ...senderHeaders(message), ...authorized(hookToken) }, body };
  },

  async detect(machine, stateDir) {
    const settings = tryParse((await openClawSettings(machine, stateDir)).text);
    const found = settings === null ? {} : { baseUrl: gatewayUrl(settings) };
    return { confidence: "none", reasons: [], configPath: null, ...found };
  },

  async inspectHook(machine, { baseUrl, hookPath, hookToken }, stateDir) {
    if (hookPath !== HOOK_PATH) return null;
    const { path, text } = await openClawSettings(machine, stateDir);
    const settings = tryParse(text);
    if (settings === null || new URL(baseUrl).port !== new URL(gatewayUrl(settings)).port) return null;
    if (memberOf(settings, "channels", "a2a", "enabled") !== true) return `the A2A channel is off in ${path}`;
    const known = memberOf(settings, "channels", "a2a", "peers", PEER, "token");
    return known === hookToken ? null : `the token of the peer ${PEER} is not that of ${path}`;
  },

  async plan(machine, { target, stateDir, makeToken }) {
    const { path, text } = await openClawSettings(machine, stateDir);
    const settings = path === null ? {} : parseSettings(text, path);
    const at = ["channels", "a2a", "peers", PEER, "token"];
    const known = memberOf(settings, ...at);
    const hookToken = target.hookToken ?? (typeof known === "string" && known !== "" ? known : makeToken());
    const isGateway = target.hookPath === HOOK_PATH &&
      new URL(target.baseUrl).port === new URL(gatewayUrl(settings)).port;
    if (path === null || text === null || !isGateway) {
      const steps = [
        "For Hermes, switch on its A2A platform with hermes gateway setup, and add two lines to its .env: " +
        `A2A_PORT=${new URL(target.baseUrl).port} and A2A_PEER_TOKENS=${PEER}:${hookToken}`,
      ];
      return { change: null, steps, hookToken };
    }
    const wanted = withMember(withMember(settings, ["channels", "a2a", "enabled"], true), at, hookToken);
    return { change: changeTo(wanted, path, settings, text), steps: [], hookToken };
  },
};

/** The A2A context of a session with a sender: a hash, which fits every runtime's form of an ID. */
export function contextOf(fromDid: string, session: string | null): Promise<string> {
  return sha256(`${fromDid}\n${session ?? ""}`);
}

function errorOf({ code, message }: z.infer<typeof Failure>["error"]): TaskAnswer {
  if (code === RPC_ERROR.taskNotFound.code) return { kind: "unknown_task" };
  const why = `A2A error ${code}: ${message.slice(0, MAX_WHY).toWellFormed()}`;
  if (!FINAL.has(code)) return { kind: "unclear", why };
  return { kind: "refused", why, isEnded: code === RPC_ERROR.unsupported.code };
}

function answerOfTask({ id: taskId, status: { state, message }, artifacts }: z.infer<typeof Task>): TaskAnswer {
  const said = textOfParts(message?.parts ?? []);
  if (WORKING.has(state)) return { kind: "working", taskId };
  const need = ASKING.get(state);
  if (need !== undefined) return { kind: "asks", taskId, text: said.trim() === "" ? need : said };
  const code = WITHOUT_RESULT.get(state);
  if (code !== undefined) return { kind: "ended", text: said, code };
  if (state !== "TASK_STATE_COMPLETED") return { kind: "unclear", why: "the answer has an unknown state" };
  const parts = (artifacts ?? []).flatMap((artifact) => artifact.parts);
  return { kind: "ended", text: parts.length > 0 ? textOfParts(parts) : said, code: null };
}

function request(id: string, method: string, params: object): string {
  return JSON.stringify({ jsonrpc: "2.0", id, method, params });
}

function authorized(hookToken: string | null): Record<string, string> {
  return { [A2A_VERSION_HEADER]: A2A_VERSION, ...bearer(hookToken) };
}
