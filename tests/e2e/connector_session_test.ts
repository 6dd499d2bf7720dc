/** An access token that ends while the connector is connected: refreshed ahead, and no message is lost over it (N06). */
import { assert, assertEquals } from "@std/assert";
import { Listener, RunningConnector, svc } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { eventually, Service, tempFolder } from "../support/process.ts";

/** Short enough to end during the test; a connector refreshes no oftener than every 5 s. */
const TOKEN_S = 6;

Deno.test("messages go both ways over the ends of both agents' access tokens, and none is lost (N06)", async () => {
  const program = await bundledProgram();
  await using service = await Service.open({
    ACCESS_TOKEN_TTL_SECONDS: String(TOKEN_S),
    SESSION_REVALIDATE_INTERVAL_MS: "500",
  });
  await using folder = await tempFolder();
  await using runtime = new Listener();
  const env = { SVC_API_KEY: service.apiKey, SVC_REGISTRY_URL: service.url };
  const dir = folder.path;
  await svc(dir, ["config", "init", "--registry-url", service.url], {}, program);
  const connectors: RunningConnector[] = [];
  try {
    for (const name of ["alpha", "beta"]) {
      await svc(dir, ["agent", "create", name], env, program);
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
    const handed = () => runtime.handed.map(({ headers }) => headers.get("x-request-id"));
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
