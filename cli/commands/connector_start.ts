/** `svc connector start`. */
import { command } from "../command_line/command.ts";
import type { Context } from "../context.ts";

/** Options that say where the proxy and the runtime are; `connector service install` has them too. */
export const CONNECTOR_OPTIONS = {
  "proxy-ws-url": {
    value: "url",
    summary: "The proxy to dial, ws or wss; else that of the configuration",
    env: "SVC_PROXY_WS_URL",
  },
  "runtime-base-url": {
    value: "url",
    summary: "The agent's runtime; else that of install, else http://127.0.0.1:18789",
    env: "SVC_RUNTIME_BASE_URL",
  },
  "openclaw-base-url": { value: "url", summary: "The same", env: "OPENCLAW_BASE_URL" },
  "hook-path": {
    value: "path",
    summary: "Where the runtime takes messages; /hooks/agent unless its platform has another",
    env: "SVC_HOOK_PATH",
  },
  "hook-token": { value: "token", summary: "The runtime's own secret", env: "SVC_HOOK_TOKEN", secret: true },
  port: {
    value: "port",
    summary: "Port of the local API, kept for later starts (default: the agent's own, from 19400)",
  },
  "allow-insecure": { summary: "Allow plain ws to another machine, and a runtime on another machine" },
} as const;

export const CONNECTOR_START_COMMANDS = [
  command({
    path: ["connector", "start"],
    summary: "Run the connector of an agent: messages in, receipts out, until it is stopped",
    details: [
      "Messages are stored before they are acknowledged, then handed to the agent's runtime; each ends in a receipt. On a",
      "terminal it shows what happens and how it is doing; in a pipe it prints one JSON line an event.",
    ],
    args: { agentName: { summary: "The agent's name on this machine", complete: "agents" } },
    options: { ...CONNECTOR_OPTIONS, save: { summary: "Keep the runtime's address and token for later starts" } },
    examples: [
      { run: "svc connector start alpha", purpose: "With the runtime that svc install found" },
      {
        run: "svc connector start alpha --runtime-base-url http://127.0.0.1:9000 --hook-path /in",
        purpose: "Any HTTP listener",
      },
    ],
    async run(ctx, { args: { agentName }, options }) {
      const { startConnector } = await import("../connector/start.ts");
      return await startConnector(ctx, agentName, options, (stop) => onStop(ctx, stop));
    },
  }),
];

/** SIGTERM from a service manager, Ctrl-C from a person; another Ctrl-C ends it at once. */
function onStop({ interrupt, os }: Context, stop: () => void): () => void {
  const release = interrupt.take(stop);
  if (os === "windows") return release;
  Deno.addSignalListener("SIGTERM", stop);
  return () => {
    Deno.removeSignalListener("SIGTERM", stop);
    release();
  };
}
