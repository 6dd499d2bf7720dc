/**
 * `svc connector`, `svc connector status` and `svc connector open`. connector_start.ts runs a connector,
 * connector_service.ts installs it.
 */
import { AGENT_ARG, command } from "../../command_line/command.ts";
import type { Context } from "../../context.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { nearest } from "../../../shared/did_you_mean.ts";
import { CliError, EXIT } from "../../errors.ts";
import { fields } from "../../terminal/output.ts";
import { isConnectorHealthy, statusFields, statusOf } from "../../connector/status.ts";
import { LocalDown } from "../../../shared/client/errors.ts";
import { curlLines } from "../../connector/local_api/curl_lines.ts";
import { readConnectorFile } from "../../connector/local_api/discovery_file.ts";
import { call, post } from "../../../shared/client/local_client.ts";
import { PageCode } from "../../../shared/client/local_shapes.ts";
import { openPage, pageLines } from "../../files/open_page.ts";
import { chosenAgent } from "../../agents/agent_store.ts";
import * as attach from "../../connector/attach.ts";

export const COMMANDS = [
  command({
    path: ["connector"],
    summary: "Print curl commands for a program that uses a running connector",
    details: [
      "There are no pairing commands: a person uses the keys of svc connector start, a program these lines.",
      "People send and read messages with svc send, svc inbox and svc reply.",
    ],
    args: { agentName: AGENT_ARG },
    examples: { "svc connector": "Print the curl commands for this machine's agent" },
    async run(ctx, { args: { agentName } }) {
      const { folder, client } = await runningConnector(ctx, agentName).catch((error) => {
        throw orCommand(error, agentName);
      });
      await statusOf(client);
      const file = readConnectorFile(folder);
      if (file === null) throw new LocalDown(folder.name, "has ended");
      const { url, port } = file;
      const lines = curlLines(folder, url);
      ctx.out.result({ agent: folder.name, url, port, lines: lines.map(([, words]) => words.join(" ")) }, [
        ...lines.flatMap(([what, words]) => [what, ...ctx.out.shellLines(words)]),
        "People use svc peers, svc send, svc inbox and svc reply for messages.",
      ]);
    },
  }),
  command({
    path: ["connector", "status"],
    summary: "Show connector status: link, runtime, inbox, dead letters, tokens",
    details: ["Exits with 1 if the connector is unhealthy."],
    args: { agentName: AGENT_ARG },
    examples: { "svc connector status": "Show whether it is connected, and since when" },
    async run(ctx, { args: { agentName } }) {
      const { folder, client } = await runningConnector(ctx, agentName);
      const status = await statusOf(client);
      const well = isConnectorHealthy(status);
      ctx.out.result({ ...status, well }, [
        ctx.out.bold(`The connector of ${folder.name} is ${well ? "healthy" : "UNHEALTHY"}`),
        ...fields(statusFields(status)),
      ]);
      return well ? EXIT.done : EXIT.failed;
    },
  }),
  command({
    path: ["connector", "open"],
    summary: "Open the web page of a running connector: read, answer, pair",
    details: [
      `The address works once, for ${
        LIMITS.pageCodeMs / 60_000
      } min, on this machine only. Without a browser it is printed.`,
    ],
    args: { agentName: AGENT_ARG },
    options: { print: { summary: "Print the address instead of opening a browser" } },
    examples: { "svc connector open": "Read and answer messages in a browser" },
    async run(ctx, { args: { agentName }, options }) {
      const { folder, client } = await runningConnector(ctx, agentName);
      const code = await call(client, PageCode, post("/v1/page-codes", {}));
      ctx.out.result(code, options.print || ctx.out.json ? pageLines(code) : await openPage(ctx, folder, code));
    },
  }),
];

/** The words that people try behind `svc connector`, with the commands that they mean. */
const MEANT: Readonly<Record<string, string>> = {
  start: "start",
  status: "status",
  open: "open",
  service: "service",
  install: "service install",
  uninstall: "service uninstall",
  logs: "service logs",
};

/** Puts the command that a word resembles before the error about an unknown agent: `svc connector strat`. */
function orCommand(error: unknown, word: string | undefined): unknown {
  if (!(error instanceof CliError) || error.code !== "CLI_AGENT_UNKNOWN" || word === undefined) return error;
  const near = nearest(word, Object.keys(MEANT));
  if (near === null) return error;
  const fix = "Run svc agent list to see your agents.";
  return new CliError(error.code, `Did you mean svc connector ${MEANT[near]}? ${error.message}`, { fix });
}

/** Returns an agent's folder and the client of its connector, `null` when none runs. */
export async function connectorOf(ctx: Context, agentName: string | undefined) {
  const folder = await chosenAgent(ctx, agentName);
  return { folder, client: await attach.connectorOf(ctx, folder) };
}

/** Returns folder and client of a running connector. @throws {import("../../../shared/client/errors.ts").LocalDown} */
export async function runningConnector(ctx: Context, agentName: string | undefined) {
  const { folder, client } = await connectorOf(ctx, agentName);
  if (client !== null) return { folder, client };
  throw new LocalDown(folder.name, "does not run");
}
