/** The alert rules for operators, by `promtool test rules`: a healthy server fires none, and each fault its own alert only. */
import { assertEquals } from "@std/assert";
import { isInstalled } from "../support/installed.ts";
import { tempFolder } from "../support/process.ts";

const ALERTS = new URL("../../docs/examples/alerts.yml", import.meta.url).pathname;
const MESSAGES = 'svc_http_requests_total{instance="a",route="/hooks/agent",status=';

/** Samples of a minute each, in promtool's notation: first value, change, number of changes. */
const HEALTHY: Readonly<Record<string, string>> = {
  'up{job="svc",instance="a"}': "1+0x120",
  'svc_ready{instance="a"}': "1+0x120",
  'svc_crl_age_seconds{instance="a"}': "100+0x120",
  'svc_relay_ack_seconds_bucket{instance="a",le="0.5"}': "0+10x120",
  'svc_relay_ack_seconds_bucket{instance="a",le="5"}': "0+10x120",
  'svc_relay_ack_seconds_bucket{instance="a",le="+Inf"}': "0+10x120",
  'svc_mailbox_oldest_seconds{instance="a"}': "10+0x120",
  'svc_mailbox_fullest_ratio{instance="a"}': "0.1+0x120",
  [`${MESSAGES}"202"}`]: "0+100x120",
  [`${MESSAGES}"429"}`]: "0+1x120",
  'svc_refusals_total{instance="a",check="9"}': "0+1x120",
  'svc_refusals_total{instance="a",check="4"}': "0+1x120",
  'svc_agent_tokens_expiring_7d{instance="a"}': "0+0x120",
  'svc_store_free_bytes{instance="a"}': "5e9+0x120",
  'svc_store_reserve_bytes{instance="a"}': "1e9+0x120",
  'svc_store_commits_total{instance="a",result="error"}': "0+0x120",
  'svc_process_resident_memory_bytes{instance="a"}': "2e8+0x120",
};

/** The alert, the series that differs from a healthy server (`null`: it is missing), and the minute at which it fires. */
const FAULTS: readonly (readonly [alert: string, series: string, samples: string | null, at: number])[] = [
  ["SvcNotReady", 'svc_ready{instance="a"}', "1+0x60 0+0x60", 62],
  ["SvcNotReady", 'svc_ready{instance="a"}', null, 62],
  ["SvcInstanceDown", 'up{job="svc",instance="proxy"}', "1+0x60 0+0x60", 66],
  ["SvcRevocationListOld", 'svc_crl_age_seconds{instance="a"}', "100+0x60 500+0x60", 64],
  ["SvcAcknowledgementsSlow", 'svc_relay_ack_seconds_bucket{instance="a",le="0.5"}', "0+5x120", 60],
  ["SvcMailboxOld", 'svc_mailbox_oldest_seconds{instance="a"}', "0+60x120", 62],
  ["SvcMailboxFilling", 'svc_mailbox_fullest_ratio{instance="a"}', "0.1+0x60 0.9+0x60", 62],
  ["SvcMessagesRefused", `${MESSAGES}"429"}`, "0+30x120", 60],
  ["SvcRateLimited", 'svc_refusals_total{instance="a",check="9"}', "0+30x120", 60],
  ["SvcTokensEnding", 'svc_agent_tokens_expiring_7d{instance="a"}', "0+0x60 3+0x60", 62],
  ["SvcDiskFilling", 'svc_store_free_bytes{instance="a"}', "5e9-5e7x120", 62],
  // A registry in its own process, which has no reserve.
  ["SvcDiskFilling", 'svc_store_free_bytes{instance="registry"}', "5e9-5e7x95 5e7+0x25", 98],
  ["SvcStoreErrors", 'svc_store_commits_total{instance="a",result="error"}', "0+0x60 1+0x60", 62],
  ["SvcBadProofs", 'svc_refusals_total{instance="a",check="4"}', "0+0x90 0+100x30", 95],
  ["SvcMemory", 'svc_process_resident_memory_bytes{instance="a"}', "2e8+0x60 9e8+0x60", 66],
];
/** These rules compare each instance, so the alert names it. */
const NAMED = ["SvcInstanceDown", "SvcRevocationListOld", "SvcDiskFilling", "SvcMemory"];

Deno.test({
  name: "a healthy server fires no alert, and each fault fires its own one",
  ignore: !await isInstalled("promtool"),
  async fn() {
    const text = await Deno.readTextFile(ALERTS);
    const rules = [...text.matchAll(/alert: (\w+)[\s\S]*?severity: (\w+) \}[\s\S]*?summary: (.+?) \}/g)];
    const alerts = rules.map(([, alert = ""]) => alert);
    assertEquals(new Set(FAULTS.map(([alert]) => alert)), new Set(alerts), "each alert has a fault here");
    const expected = (firing: string | null, at: number, series = "") =>
      rules.map(([, alertname = "", severity, summary]) => {
        const [, instance = ""] = /instance="(\w+)"/.exec(series) ?? [];
        const job = alertname === "SvcInstanceDown" ? { job: "svc" } : {};
        const labels = { severity, ...job, ...NAMED.includes(alertname) ? { instance } : {} };
        const one = { exp_labels: labels, exp_annotations: { summary } };
        return { eval_time: `${at}m`, alertname, exp_alerts: alertname === firing ? [one] : [] };
      });
    const input = (series: Record<string, string | null>) =>
      Object.entries(series).flatMap(([series, values]) => values === null ? [] : [{ series, values }]);
    const tests = [
      { interval: "1m", input_series: input(HEALTHY), alert_rule_test: expected(null, 110) },
      ...FAULTS.map(([alert, series, samples, at]) => ({
        interval: "1m",
        input_series: input({ ...HEALTHY, [series]: samples }),
        alert_rule_test: expected(alert, at, series),
      })),
    ];
    await using folder = await tempFolder();
    const file = `${folder.path}/alerts_test.json`;
    await Deno.writeTextFile(file, JSON.stringify({ rule_files: [ALERTS], evaluation_interval: "1m", tests }));
    const { code, stdout, stderr } = await new Deno.Command("promtool", { args: ["test", "rules", file] }).output();
    assertEquals(code, 0, new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr));
  },
});
