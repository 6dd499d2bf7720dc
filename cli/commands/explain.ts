/** `svc explain`: explains error codes of the CLI, the connector and the services. */
import { ACK_REASONS } from "../../shared/protocol/ack_reasons.ts";
import { type ErrorCode, ERRORS } from "../../shared/protocol/errors.ts";
import { command } from "../command_line/command.ts";
import { CONNECTOR_CODES, LOCAL_ERRORS, type LocalCode } from "../local_errors.ts";
import { CLI_ERRORS, CliError, EXIT, exitOf, fixOf, FOREIGN_ANSWER } from "../errors.ts";
import { fields } from "../terminal/output.ts";
import type { BUSY } from "../../shared/client/local_shapes.ts";
import type { TaskCode } from "../platforms/platform.ts";
import { didYouMean } from "../../shared/did_you_mean.ts";

/** The codes that only the client library throws. It also throws codes of the services and of the CLI. */
export const LIBRARY_ERRORS: Readonly<Record<string, { when: string; fix: string }>> = {
  NO_REPLY: {
    when: "No reply to a question came in time, or the question was not processed",
    fix: "Ask again with a longer timeoutMs, or handle a late reply in onMessage.",
  },
  REPLY_ERROR: {
    when: "A question was answered with an error: its recipient has no answer",
    fix: "The member reply of the error is the message, with the code of the recipient in reply.error.",
  },
  CONNECTOR_DOWN: {
    when: "The agent's connector does not run, or does not answer",
    fix: "Run svc connector start <name>.",
  },
};

/** The codes of replies of svc itself (`svcError`). */
const REPLY_ERRORS: Readonly<Record<typeof BUSY | TaskCode, { when: string; fix: string }>> = {
  BUSY: {
    when: "Too many automatic answers followed each other, so the peer's connector did not send the agent's answer",
    fix: "Ask again in a new message, or after the time that the reply names.",
  },
  TASK_FAILED: {
    when: "The peer's agent could not complete the task, or its answer was too large",
    fix: "Read the text of the reply, and ask again if that can change.",
  },
  TASK_REJECTED: { when: "The peer's agent did not accept the task", fix: "Ask in another way." },
  TASK_CANCELED: { when: "The task was canceled at the peer's agent", fix: "Ask again if you still need the answer." },
  TASK_LOST: { when: "The peer's agent has lost the task, or had no result in time", fix: "Ask again." },
};

/** Codes of both services. All other codes of the proxy begin with its name. */
const OF_BOTH: readonly ErrorCode[] = [
  ...["NOT_FOUND", "METHOD_NOT_ALLOWED", "PAYLOAD_TOO_LARGE", "REQUEST_TIMEOUT", "INTERNAL_ERROR"] as const,
  ...["SERVICE_UNAVAILABLE", "RATE_LIMIT_EXCEEDED", "QUOTA_EXCEEDED"] as const,
];

function originOf(code: ErrorCode): string {
  if (code.startsWith("PROXY_")) return "the proxy";
  return OF_BOTH.includes(code) ? "the registry and the proxy" : "the registry";
}

interface Explanation {
  code: string;
  when: string;
  fix: string;
  from: string;
  status?: number[];
  /** Empty when no command ends with this code. */
  exit: number[];
}

/** The rows of codes with which no command ends. */
function withoutExit(rows: Readonly<Record<string, { when: string; fix: string }>>, from: string): Explanation[] {
  return Object.entries(rows).map(([code, { when, fix }]) => ({ code, when, fix, from, exit: [] }));
}

const ALL: readonly Explanation[] = [
  ...(Object.keys(ERRORS) as ErrorCode[]).map((code) => {
    const { when } = ERRORS[code], status = [ERRORS[code].status].flat();
    const exit = [...new Set(status.map((status) => exitOf(status)))];
    return { code, when, fix: fixOf(code), from: originOf(code), status, exit };
  }),
  ...Object.entries(CLI_ERRORS).map(([code, { when, fix, exit = EXIT.failed }]) => {
    return { code, when, fix, from: "svc itself", exit: [exit] };
  }),
  ...CONNECTOR_CODES.map((code) => {
    const { when, fix, status } = LOCAL_ERRORS[code as LocalCode];
    return { code, when, fix, from: "the connector on this machine", status: [status], exit: [exitOf(status, code)] };
  }),
  ...withoutExit(LIBRARY_ERRORS, "the client library"),
  ...withoutExit(REPLY_ERRORS, "the connector of the peer, in a reply"),
  ...withoutExit(ACK_REASONS, "the connector of the recipient"),
];
const CODES = ALL.map(({ code }) => code);

export const COMMANDS = [
  command({
    path: ["explain"],
    summary: "Explain what an error code means and how to fix it",
    args: { code: { summary: "Error code as printed, for example PROXY_AUTH_REPLAY", complete: CODES } },
    examples: { "svc explain PROXY_AUTH_REPLAY": "Explain why a request was rejected and how to fix it" },
    run(ctx, { args }) {
      const word = args.code.replaceAll("-", "_"), reason = word.toLowerCase();
      const code = Object.hasOwn(ACK_REASONS, reason) ? reason : word.toUpperCase();
      const facts = ALL.find((one) => one.code === code) ?? ofForeign(code);
      if (facts === null) {
        const whole = CODES.filter((known) => known.endsWith(`_${code}`)).join(" or ");
        const known = whole === "" ? didYouMean(code, CODES) : ` Did you mean ${whole}?`;
        throw new CliError("CLI_CODE_UNKNOWN", `There is no error code ${args.code}.${known}`);
      }
      ctx.out.result({ ...facts }, [
        ctx.out.bold(code),
        ...fields([
          ["when", facts.when],
          ["what to do", facts.fix],
          ["reported by", facts.from],
          ["HTTP status", facts.status?.join(" or ")],
          ["exit code", facts.exit.join(" or ") || undefined],
        ]),
      ]);
    },
  }),
];

/** Explains the code of an answer that names none of svc. */
function ofForeign(code: string): Explanation | null {
  const status = code.startsWith("HTTP_") ? Number(code.slice(5)) : NaN;
  if (!(status >= 100 && status <= 599)) return null;
  const when = `a server answers with status ${status}, and without an error of svc`;
  return {
    code,
    when,
    fix: FOREIGN_ANSWER,
    from: "another program or a gateway",
    status: [status],
    exit: [exitOf(status)],
  };
}
