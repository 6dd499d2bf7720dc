/** Writes the picture of README.md: `deno task screenshots`. */
import { Connectors } from "./connectors.ts";

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
