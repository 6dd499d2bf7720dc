/** `svc send` and `svc reply`: send a message, and print the reply. */
import { AGENT_OPTION, command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { parseCount } from "../command_line/numbers.ts";
import { CliError } from "../errors.ts";

/** Default and longest wait for a reply, in seconds. */
const TIMEOUT = 60, MAX_TIMEOUT = 3_600;

const TEXT = {
  summary: "The text; - reads standard input, which is also read without a text in a pipe",
  optional: true,
} as const;
const CONTENT = {
  ...AGENT_OPTION,
  data: { value: "json", summary: "JSON payload in place of a text; - reads standard input" },
  file: { value: "path", summary: "Read the text from this file", complete: "files" },
  "request-id": { value: "id", summary: "Request ID; a message with the same one is delivered once" },
  wait: { summary: "Wait for the reply and print it" },
  timeout: { value: "seconds", summary: `How long to wait, 1 to ${MAX_TIMEOUT} (default ${TIMEOUT})` },
  "allow-insecure": REGISTRY_OPTIONS["allow-insecure"],
} as const;

export const COMMANDS = [
  command({
    path: ["send"],
    summary: "Send a message to a peer, and with --wait print the reply",
    details: [
      "The reply goes to standard output, the state of the message to standard error. A peer that is offline gets the",
      "message when it connects; while the server cannot be reached, a connector that runs keeps it and sends it later. Exits with 1 if the peer did not accept it or could not answer, and with 6 if no reply came",
      "in time.",
    ],
    args: { peer: { summary: "Alias or DID of the peer, from svc peers", complete: "peers" }, text: TEXT },
    options: {
      ...CONTENT,
      conversation: { value: "id", summary: "Conversation of the message" },
      "only-online": { summary: "Do not let the message wait for a peer that is offline" },
    },
    examples: {
      'svc send beta "Hello beta"': "Send a text",
      'svc send beta --wait "How many tests fail?"': "Ask, and print only the answer to stdout",
    },
    async run(ctx, { args: { peer, text }, options }) {
      const { sendMessage } = await import("../messages/send.ts");
      return await sendMessage(ctx, {
        agent: options.agent,
        to: peer,
        text,
        data: options.data,
        file: options.file,
        conversationId: options.conversation,
        requestId: options["request-id"],
        onlyOnline: options["only-online"],
        waitSeconds: waitSeconds(options),
        allowInsecure: options["allow-insecure"],
      });
    },
  }),
  command({
    path: ["reply"],
    summary: "Reply to a message of the inbox, which is then read",
    details: ["The reply keeps the conversation of the message."],
    args: { id: { summary: "Number of the message, from svc inbox" }, text: TEXT },
    options: CONTENT,
    examples: { 'svc reply 17 "All tests pass"': "Answer message 17" },
    async run(ctx, { args: { id, text }, options }) {
      const replyTo = parseCount(id, "<id>", Number.MAX_SAFE_INTEGER);
      const { sendMessage } = await import("../messages/send.ts");
      return await sendMessage(ctx, {
        agent: options.agent,
        to: { replyTo },
        text,
        data: options.data,
        file: options.file,
        requestId: options["request-id"],
        onlyOnline: false,
        waitSeconds: waitSeconds(options),
        allowInsecure: options["allow-insecure"],
      });
    },
  }),
];

/** Seconds to wait; `null` without `--wait`. @throws {CliError} `CLI_USAGE` */
function waitSeconds({ wait, timeout }: { wait: boolean; timeout: string | undefined }): number | null {
  if (!wait && timeout !== undefined) throw new CliError("CLI_USAGE", "--timeout needs --wait");
  return wait ? parseCount(timeout ?? `${TIMEOUT}`, "--timeout", MAX_TIMEOUT) : null;
}
