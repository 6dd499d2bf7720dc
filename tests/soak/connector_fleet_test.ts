/**
 * 200 connectors lose their proxy together and reconnect within a minute, spread over random waits. The rate is
 * the average from the end of the links on: a slow machine lowers it only. Counted from the first return it depends on how
 * long the restart takes. `tests/cli/link/backoff_test.ts` tries restarts of any length.
 */
import { assert, assertEquals } from "@std/assert";
import { ReconnectingLink } from "../../cli/link/reconnect.ts";
import { openLink } from "../../cli/link/link.ts";
import { ServiceClock } from "../../cli/link/service_clock.ts";
import type { AgentCredentials } from "../../cli/link/agent_credentials.ts";
import { systemClock } from "../../shared/clock.ts";
import { systemRandom } from "../../shared/random.ts";
import {
  bootstrap,
  eventually,
  freePort,
  type LiveAgent,
  newAgent,
  newId,
  placeOf,
  startServer,
  tempFolder,
} from "../support/process.ts";

const COUNT = 200;

Deno.test(`${COUNT} connectors reconnect within 60 s of a restart, at 50 a second or fewer`, async () => {
  await using folder = await tempFolder();
  const env = { PORT: String(freePort()), AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "60" };
  let server = await startServer({ folder: folder.path, env });
  const fleet: { connection: ReconnectingLink; over: Promise<unknown> }[] = [];
  try {
    const place = placeOf(server);
    const apiKey = await bootstrap(place);
    const agents: LiveAgent[] = [];
    for (let n = 0; n < COUNT; n++) agents.push(await newAgent(place, apiKey, `agent-${n}`));
    const came: number[] = [];
    const codes: unknown[] = [];
    for (const { identity } of agents) {
      const session: AgentCredentials = {
        current: () => Promise.resolve(identity),
        renew: () => Promise.resolve(false),
        accessExpiresAt: Infinity,
        identityExpiresAt: Infinity,
        stop: () => {},
      };
      const connection = new ReconnectingLink({
        clock: systemClock,
        random: systemRandom,
        serviceClock: new ServiceClock(systemClock),
        session,
        open: (agent, events) =>
          openLink({ clock: systemClock, random: systemRandom, newId }, place.proxyUrl, agent, events),
        emit: (event, fields) => {
          if (event === "refused") codes.push(fields?.code);
        },
      }, {
        deliver: () => Promise.resolve({ accepted: true }),
        paired: () => {},
        delivery: () => {},
        connected: () => void came.push(Date.now()),
        lost: () => {},
      });
      fleet.push({ connection, over: connection.run() });
    }
    const allAre = (state: string) => () =>
      fleet.every(({ connection }) => connection.status.state === state) || undefined;
    await eventually(60_000, "all are connected", allAre("connected"));
    came.length = 0;
    const ended = Date.now();
    await server.end("SIGTERM");
    server = await startServer({ folder: folder.path, env });
    const up = Date.now();
    await eventually(60_000, "all are back", allAre("connected"));
    const seconds = ((Date.now() - up) / 1000).toFixed(1);
    const most = Math.max(...came.map((at) => came.filter((other) => other >= at && other < at + 1_000).length));
    const rate = came.length / ((Math.max(...came) - ended) / 1000);
    console.log(`${COUNT} connectors back after ${seconds} s, ${rate.toFixed(0)}/s, ${most} in the busiest second`);
    assertEquals(codes.filter((code) => code === "PROXY_RATE_LIMIT_EXCEEDED"), []);
    assert(rate <= 50, `${rate} a second`);
  } finally {
    for (const { connection } of fleet) connection.stop();
    await Promise.all(fleet.map(({ over }) => over));
    await server[Symbol.asyncDispose]();
  }
});
