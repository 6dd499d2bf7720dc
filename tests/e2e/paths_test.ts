/**
 * Percent-encoded letters in a path reach the same route in every form of deployment (D-241): registry alone, proxy
 * alone, both in one process. Real processes.
 */
import { assertEquals } from "@std/assert";
import { Service } from "../support/process.ts";

/** Status, error code and, for a health answer, its services. */
async function answerOf(url: string, method = "GET"): Promise<string> {
  const response = await fetch(url, { method });
  const text = await response.text();
  const body = text.startsWith("{") ? JSON.parse(text) : {};
  const services = ["registry", "proxy"].filter((name) => name in body).join("+");
  return `${response.status} ${body.error?.code ?? services}`.trim();
}

const REGISTRY_PATHS = [
  ["/v1/agents", "/v1/%61gents", "/%76%31/agent%73"],
  ["/.well-known/svc-keys.json", "/.well-known/svc-keys%2ejson"],
  ["/v1/metadata", "/v1/metadat%61?x=%61"],
];
const PROXY_PATHS = [["/pair/peers", "/pair/%70eers"], ["/hooks/agent", "/%68ooks/agent"]];
const SHARED_PATHS = [["/health", "/%68ealth"], ["/openapi.json", "/%6fpenapi.json"], ["/none", "/%6eone"]];
/** An encoded slash, percent sign or broken escape does not become part of another path. */
const OTHERS = ["/v1%2fagents", "/v1/%2561gents", "/v1/%agents", "/%", "/v1/agents%00"];

async function holds(url: string, paths: readonly string[][]): Promise<void> {
  for (const [plain = "", ...forms] of paths) {
    for (const form of forms) {
      assertEquals(await answerOf(url + form), await answerOf(url + plain), `GET ${form}`);
      assertEquals(await answerOf(url + form, "HEAD"), await answerOf(url + plain, "HEAD"), `HEAD ${form}`);
    }
  }
  for (const path of OTHERS) assertEquals(await answerOf(url + path), "404 NOT_FOUND", path);
}

Deno.test("encoded letters in a path reach the same route when both services share a process", async () => {
  await using service = await Service.open();
  await holds(service.url, [...REGISTRY_PATHS, ...PROXY_PATHS, ...SHARED_PATHS]);
  assertEquals(await answerOf(`${service.url}/v1/%61gents`), "401 API_KEY_MISSING");
  assertEquals(await answerOf(`${service.url}/%68ealth`), "200 registry+proxy");
});

Deno.test("encoded letters in a path reach the same route when the services run apart", async () => {
  await using service = await Service.open({}, true);
  const { registryUrl, proxyUrl } = service.place;
  await holds(registryUrl, [...REGISTRY_PATHS, ...SHARED_PATHS]);
  await holds(proxyUrl, [...PROXY_PATHS, ...SHARED_PATHS]);
  assertEquals(await answerOf(`${registryUrl}/v1/%61gents`), "401 API_KEY_MISSING");
});
