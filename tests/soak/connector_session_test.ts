/** An access token that expires is refreshed ahead of time, and no message is lost. */
import { assert, assertEquals } from "@std/assert";
import { createAgents, Listener, RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { eventually, Service, tempFolder } from "../support/process.ts";

/** Short enough to expire during the test; a connector refreshes at most every 5 s. */
const TOKEN_S = 6;

Deno.test("messages in both directions survive the expiry of both agents' access tokens", async () => {
  const program = await bundledProgram();
  await using service = await Service.open({
    ACCESS_TOKEN_TTL_SECONDS: String(TOKEN_S),
    SESSION_REVALIDATE_INTERVAL_MS: "1000",
  });
  await using folder = await tempFolder();
  await using runtime = new Listener();
  const dir = folder.path;
  await createAgents(dir, service, ["alpha", "beta"]);
  const connectors: RunningConnector[] = [];
  try {
    for (const name of ["alpha", "beta"]) {
      const options = ["--runtime-base-url", runtime.url];
      connectors.push(await RunningConnector.start(dir, name, options, { program }));
    }
    const [alpha, beta] = connectors;
    assert(alpha && beta);
    const { ticket } = await alpha.json("POST", "/v1/pair/start", {});
    await beta.json("POST", "/v1/pair/confirm", { ticket });
    const sent: string[] = [];
    const until = Date.now() + (TOKEN_S + 2) * 1000;
    while (Date.now() < until) {
      for (const [from, to] of [[alpha, "beta"], [beta, "alpha"]] as const) {
        const { requestId, delivered } = await from.json("POST", "/v1/outbound", { to, payload: { message: to } });
        assertEquals(delivered, true);
        sent.push(requestId);
      }
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    const handed = () => runtime.received.map(({ headers }) => headers.get("x-request-id"));
    await eventually(10_000, "all are handed over", () => handed().length >= sent.length || undefined);
    assertEquals(handed().toSorted(), sent.toSorted());
    for (const { events, child } of connectors) {
      const count = (name: string) => events.filter(({ event }) => event === name).length;
      assert(count("refreshed") >= 1, child.printed);
      assertEquals([count("connected"), count("disconnected"), count("refused")], [1, 0, 0], child.printed);
    }
    const { session, now } = await alpha.json("GET", "/v1/status");
    assert(session.accessExpiresAt > now);
  } finally {
    for (const connector of connectors) await connector[Symbol.asyncDispose]();
  }
});
