/**
 * The mailbox keeps its promise (D-68): every message acknowledged as queued arrives, with kills of the proxy at any
 * moment.
 */
import { assert, assertEquals } from "@std/assert";
import { AgentClient, UnreachableError } from "../support/agent_client.ts";
import {
  bootstrap,
  Connector,
  deps,
  eventually,
  freePort,
  newAgent,
  pair,
  placeOf,
  SOON_MS,
  startServer,
  tempFolder,
} from "../support/process.ts";
import { trials } from "../support/trials.ts";

const TRIALS = trials(1);

Deno.test(`every queued message arrives once without duplicates when the proxy is killed ${TRIALS} times`, async () => {
  await using folder = await tempFolder();
  const env = { PORT: String(freePort()), AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "100000" };
  let server = await startServer({ folder: folder.path, env });
  const place = placeOf(server);
  const apiKey = await bootstrap(place);
  const [a, b] = [await newAgent(place, apiKey, "a"), await newAgent(place, apiKey, "b")];
  await pair(a, b);
  const sender = new AgentClient(deps, place.proxyUrl, a.identity);
  const acknowledged = new Set<string>();
  const taken = new Set<string>();
  let again = 0;
  const take = (requestId: string) => {
    if (taken.has(requestId)) again++;
    taken.add(requestId);
    return { accepted: true };
  };

  for (let trial = 0; trial < TRIALS; trial++) {
    let killed = false;
    const send = async (n: number) => {
      const requestId = `message-${trial}-${n}`;
      const payload = JSON.stringify({ n, text: "x".repeat(n % 3 === 0 ? 100_000 : 10) });
      try {
        await sender.sendMessage({ recipientDid: b.agent.did, payload, requestId, prefer: "respond-async" });
        acknowledged.add(requestId);
      } catch (error) {
        if (!killed || !(error instanceof UnreachableError)) throw error;
      }
    };
    const earlier = [...acknowledged];
    // Some while no recipient is connected, some during delivery; then the end, at any moment.
    for (let n = 0; n < 10; n++) await send(n);
    const connector = await Connector.open(place, b, (frame) => take(frame.requestId));
    // Otherwise a slow machine delivers fewer between two kills than are sent, until the mailbox is full.
    await eventually(30_000, "the earlier messages", () => earlier.every((id) => taken.has(id)) || undefined);
    const sending = Promise.all(Array.from({ length: 20 }, (_, n) => send(10 + n)));
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 60));
    killed = true;
    await server.end("SIGKILL");
    await sending;
    await connector.closed;
    server = await startServer({ folder: folder.path, env });
  }

  const connector = await Connector.open(place, b, (frame) => take(frame.requestId));
  const missing = () => [...acknowledged].filter((requestId) => !taken.has(requestId));
  await eventually(SOON_MS, "every acknowledged message", () => missing().length === 0 || undefined).catch(() => {});
  assertEquals(missing(), []);
  assert(acknowledged.size >= TRIALS * 10);
  console.log(`${acknowledged.size} acknowledged, ${taken.size} received, ${again} handed over again after a kill`);
  await connector.close();
  await server[Symbol.asyncDispose]();
});
