/** Real connectors that dial a relay that lies, in front of a real service. */
import { createAgents, Listener, RunningConnector } from "../cli/connector/people.ts";
import { HostileRelay } from "../support/hostile_relay.ts";
import { eventually, Service, tempFolder } from "../support/process.ts";

/** A service, a relay that lies, and two people whose connectors dial it. */
export async function opened(more: AsyncDisposableStack) {
  const service = more.use(await Service.here()), folder = more.use(await tempFolder());
  const relay = more.use(await HostileRelay.start(service.url));
  const [ada, bob] = [`${folder.path}/ada`, `${folder.path}/bob`];
  await createAgents(ada, service, ["alpha"]);
  await createAgents(bob, { url: service.url, apiKey: await service.person() }, ["beta"]);
  const runtime = more.use(new Listener());
  const dial = ["--proxy-ws-url", relay.wsUrl];
  const start = (dir: string, name: string, ...args: string[]) => RunningConnector.start(dir, name, [...dial, ...args]);
  const alpha = more.use(await start(ada, "alpha"));
  const beta = more.use(await start(bob, "beta", "--runtime-base-url", runtime.url));
  return { service, relay, runtime, alpha, beta, ada, bob, start };
}

type Opened = Awaited<ReturnType<typeof opened>>;

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
