/** Real connectors that dial a relay that lies, in front of a real service. */
import { Listener, RunningConnector, svc } from "../cli/connector/people.ts";
import { HostileRelay } from "../support/hostile_relay.ts";
import { AMPLE_QUOTA_VARIABLES, BOOTSTRAP_SECRET, eventually, startServer, tempFolder } from "../support/process.ts";

/** A service, a relay that lies, and two people whose connectors dial it. */
export async function opened(more: AsyncDisposableStack) {
  const folder = more.use(await tempFolder());
  const env = { ...AMPLE_QUOTA_VARIABLES, AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "100000" };
  const server = more.use(await startServer({ folder: folder.path, env }));
  const relay = more.use(await HostileRelay.start(server.address));
  const [ada, bob] = [`${folder.path}/ada`, `${folder.path}/bob`];
  const at = { SVC_REGISTRY_URL: server.address };
  await svc(ada, ["admin", "bootstrap", "--bootstrap-secret", BOOTSTRAP_SECRET], at);
  for (const [dir, name] of [[ada, "alpha"], [bob, "beta"]] as const) {
    if (dir === bob) {
      const { invite } = await svc(ada, ["invite", "create"], at);
      await svc(bob, ["invite", "redeem", invite.code, "--display-name", "Bob"], at);
    }
    await svc(dir, ["agent", "create", name], at);
  }
  const runtime = more.use(new Listener());
  const dial = ["--proxy-ws-url", relay.wsUrl];
  const start = (dir: string, name: string, ...args: string[]) =>
    RunningConnector.start(dir, name, [...dial, ...args], { env: at });
  const alpha = more.use(await start(ada, "alpha"));
  const beta = more.use(await start(bob, "beta", "--runtime-base-url", runtime.url));
  return { server, relay, runtime, alpha, beta, ada, bob, at, start };
}

export type Opened = Awaited<ReturnType<typeof opened>>;

export async function pair({ alpha, beta }: Pick<Opened, "alpha" | "beta">): Promise<void> {
  const { ticket } = await alpha.json("POST", "/v1/pair/start", {});
  await beta.json("POST", "/v1/pair/confirm", { ticket });
  await eventually(60_000, "both sides are paired", async () => {
    const query = "/v1/pair/peers";
    const [one, other] = [await alpha.json("GET", query), await beta.json("GET", query)];
    const isPinned = alpha.events.some(({ event }) => event === "paired");
    return one.peers.length > 0 && other.peers.length > 0 && isPinned || undefined;
  });
}

let count = 0;

/** The text that `send` has sent under a request ID. */
export const textOf = (requestId: string): string => `message ${Number(requestId.slice("request-".length)) - 1000}`;

/** Sends a message from alpha to beta; returns its text, and what the proxy says of it. */
export async function send(
  { alpha }: Pick<Opened, "alpha">,
): Promise<{ text: string; requestId: string; reason: string | null }> {
  const text = `message ${++count}`, requestId = `request-${1000 + count}`;
  const body = { to: "beta", text, requestId, conversationId: "c-1", inReplyTo: "question-1" };
  const { delivered, reason } = await alpha.json("POST", "/v1/outbound", body);
  return { text, requestId, reason: delivered ? null : reason };
}

export const textsOf = ({ runtime }: Pick<Opened, "runtime">) =>
  runtime.received.map(({ body }) => String(JSON.parse(body).message).split("\n").at(-1) ?? "");

export async function arrives(all: Opened, text: string): Promise<void> {
  await eventually(
    60_000,
    `the runtime has ${text}`,
    () => textsOf(all).some((one) => one.endsWith(text)) || undefined,
  );
}
