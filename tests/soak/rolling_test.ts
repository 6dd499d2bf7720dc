/** An agent whose instance was killed is online as soon as it connects to another instance of the same store. */
import { assertEquals } from "@std/assert";
import { accessToken, Denokv, findDenokv } from "../support/denokv.ts";
import {
  bootstrap,
  Connector,
  freePort,
  messageTo,
  newAgent,
  pair,
  startServer,
  tempFolder,
  within,
} from "../support/process.ts";

const denokv = await findDenokv();

Deno.test({
  name: "an agent whose instance is killed is back where it connects, and its senders get an answer",
  ignore: denokv === null,
  async fn() {
    await using folder = await tempFolder();
    await using store = await Denokv.start(denokv ?? "", `${folder.path}/denokv.sqlite`);
    const ports = [freePort(), freePort()];
    const [p1, p2] = ports.map((port) => `http://127.0.0.1:${port}`) as [string, string];
    const place = { registryUrl: p1, proxyUrl: p1 };
    const start = (port: number) =>
      startServer({
        folder: folder.path,
        env: {
          PORT: String(port),
          KV_URL: store.address,
          DENO_KV_ACCESS_TOKEN: accessToken(),
          REGISTRY_URL: p1,
          PROXY_URL: p1,
          AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "1000",
        },
      });
    await using first = await start(ports[0] ?? 0);
    await using second = await start(ports[1] ?? 0);
    const apiKey = await bootstrap(place);
    const [a, b] = [await newAgent(place, apiKey, "a"), await newAgent(place, apiKey, "b")];
    await pair(a, b);
    const there = await Connector.open({ ...place, proxyUrl: p2 }, b);
    const message = { ...messageTo(b), inReplyTo: "request-0000", auto: true } as const;
    const send = () => within(20_000, "an answer", a.client.sendMessage(message));
    assertEquals([(await send()).delivered, there.frames.length], [true, 1]);
    assertEquals([there.frames[0]?.inReplyTo, there.frames[0]?.auto], ["request-0000", true]);

    await second.end("SIGKILL");
    await there.closed;
    const here = await Connector.open(place, b);
    for (let n = 1; n <= 3; n++) assertEquals([(await send()).delivered, here.frames.length], [true, n]);
    await here.close();
    assertEquals(first.stderr.lines.filter((line) => line.includes('"level":"error"')), []);
  },
});
