/** Writes the pictures of README.md: `deno task screenshots`. */
import { Connectors } from "./connectors.ts";
import { ConsoleWorld } from "./console_world.ts";

await using w = await Connectors.open(["alpha", "beta", "gamma"]);
await w.pair("alpha", "beta");
await w.pair("gamma", "alpha");
const say = async (from: string, to: string, text: string, more: Record<string, unknown> = {}) => {
  await w.call(from, "/v1/outbound", { to, text, ...more });
};
await say("gamma", "alpha", "Draft of the release notes is ready: 14 changes, 2 of them break something.");
await say("alpha", "beta", "Is the staging certificate renewed?");
await say("beta", "alpha", "Yes, until 20 February. I have also moved the renewal into the nightly job.", {
  replyTo: 1,
});
await w.call("beta", "/v1/outbound", {
  to: "alpha",
  payload: { job: "renew-certificates", host: "staging.example.org", warnings: [] },
});
await say("alpha", "beta", "Deploy 412 goes out at 13:00. Anything against it?", { replyTo: 2 });
await say("beta", "alpha", "Nothing against it. Which port does the staging server use? I have 8443 in my notes.", {
  replyTo: 2,
});
const { page, base } = await w.page("alpha", { colorScheme: "light" });
await page.goto(`${base}/inbox/beta`);
await page.fill("#text", "8443 is right, ");
await page.screenshot({ path: "docs/inbox.png" });

await writeConsole();

/** An hour of an operator, with fixed numbers. */
async function writeConsole(): Promise<void> {
  await using console = await ConsoleWorld.open();
  const { world } = console;
  const ada = await world.person("Ada Ovelace"), dimitri = await world.person("Dimitri");
  const charlotte = await world.person("Charlotte Wellington-Smythe");
  const scout = await world.agent(charlotte, "scout-7"), archive = await world.agent(dimitri, "archive-bot");
  const alpha = await world.agent(ada, "alpha");
  for (const agent of [scout, alpha]) world.connect(agent);
  await world.pair(scout, archive);
  await world.connected();
  for (let i = 0; i < 14; i++) await world.message(scout, archive, { headers: { Prefer: "respond-async" } });
  for (let i = 0; i < 3; i++) await world.message(alpha, scout);
  const { metrics, clock, proxy } = world;
  const times = (count: number, work: () => void) => {
    for (let i = 0; i < count; i++) work();
  };
  for (let minute = 0; minute < 60; minute++) {
    const isBad = minute > 40 && minute < 46;
    times(
      30 + Math.round(12 * Math.sin(minute / 7)) + minute % 5,
      () => metrics.count("relay_messages_total", "delivered", "local"),
    );
    times(minute % 4, () => metrics.count("relay_messages_total", "queued", "local"));
    times(isBad ? 5 : 0, () => metrics.count("relay_messages_total", "offline", "local"));
    times(20, () => metrics.observe("relay_ack_seconds", isBad ? 0.09 : 0.02));
    times(3, () => metrics.observe("relay_ack_seconds", isBad ? 0.4 : minute % 9 === 0 ? 0.2 : 0.08));
    times(
      minute > 24 && minute < 32 ? 2 : 0,
      () => metrics.count("refusals_total", "PROXY_RATE_LIMIT_EXCEEDED", "none", "local"),
    );
    times(isBad ? 3 : 0, () => metrics.count("refusals_total", "PROXY_AUTH_INVALID_AIT", "2", "local"));
    clock.step(60_000);
    await proxy.deps.series.take();
  }
  const { page } = await console.page({ colorScheme: "dark" });
  await page.screenshot({ path: "docs/console.png" });
}
