/**
 * Hermes: its webhook adapter accepts messages at `/webhooks/<route>`, signed with its secret over time and body, and
 * drops duplicates by `X-Request-ID`. A setting in `~/.hermes/.env` turns it on; a command of Hermes creates a route.
 */
import { join, resolve } from "node:path";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { type Finding, type Machine, payloadOf, type PushPlatform, senderHeaders, textOf } from "./platform.ts";
import { memberOf, readEnvFile, withEnvValues } from "./settings.ts";
import { isRecord, tryParse } from "../../shared/protocol/json_text.ts";
import { shellWord } from "../terminal/output.ts";

const PORT = 8_644;

export const HERMES: PushPlatform = {
  id: "hermes",
  name: "Hermes",
  defaults: { baseUrl: `http://127.0.0.1:${PORT}`, hookPath: "/webhooks/svc" },
  timeoutMs: 10_000,
  needsToken: true,
  repliesByDefault: false,
  health: {
    path: "/health",
    isHealthy: (status, body) => status === 200 && memberOf(tryParse(body), "platform") === "webhook",
  },

  async request(message, { hookToken }, nowSeconds) {
    // The prompt of the route uses members of an object. Any other payload becomes the text.
    const body = isRecord(tryParse(message.payload))
      ? payloadOf(message)
      : JSON.stringify({ message: textOf(message) });
    const headers = {
      ...senderHeaders(message),
      // Hermes drops duplicates by this header. A request ID alone would not do, because two senders may use the same.
      "x-request-id": message.idempotencyKey,
    };
    if (hookToken === null) return { headers, body };
    const signature = await hmac(hookToken, `${nowSeconds}.${body}`);
    return {
      headers: { ...headers, "X-Webhook-Timestamp": String(nowSeconds), "X-Webhook-Signature-V2": signature },
      body,
    };
  },

  async detect(machine, stateDir) {
    const reasons: string[] = [];
    const { folder, path: configPath, values } = await settingsOf(machine, stateDir);
    if (folder !== null && await machine.exists(folder)) reasons.push(`its folder is at ${folder}`);
    if (values.get("WEBHOOK_ENABLED") === "true") reasons.push("its webhooks are on");
    const port = Number(values.get("WEBHOOK_PORT") ?? PORT);
    const baseUrl = `http://127.0.0.1:${Number.isInteger(port) ? port : PORT}`;
    const response = await machine.ask(`${baseUrl}/health`);
    const isLive = response !== null && (HERMES.health?.isHealthy(response.status, response.body) ?? false);
    if (isLive) reasons.push(`its webhook adapter answers at ${baseUrl}`);
    const confidence: Finding["confidence"] = reasons.length === 0 ? "none" : isLive ? "high" : "medium";
    return { confidence, reasons, configPath, baseUrl };
  },

  async inspectHook(machine, { hookPath, hookToken }, stateDir) {
    const { folder, path, text, values } = await settingsOf(machine, stateDir);
    // The state directory may not be readable. Then only the health check is possible.
    if (folder === null || text === null) return null;
    if (values.get("WEBHOOK_ENABLED") !== "true") return `webhooks are off in ${path}`;
    if (values.get("WEBHOOK_SECRET") !== hookToken) return `the secret is not that of ${path}`;
    const route = routeOf(hookPath);
    const made = memberOf(tryParse(await machine.read(join(folder, "webhook_subscriptions.json"))), route);
    // A route may also have been written by hand.
    const isWritten = (await machine.read(join(folder, "config.yaml")))?.includes(`${route}:`) ?? false;
    if (made === undefined) return isWritten ? null : `there is no route ${route}: ${subscribe(route, folder)}`;
    const own = memberOf(made, "secret");
    if (own === undefined || own === hookToken) return null;
    return `the route ${route} has another secret: ${subscribe(route, folder)}`;
  },

  async plan(machine, { target, stateDir, makeToken }) {
    const { folder, path, text, values } = await settingsOf(machine, stateDir);
    const route = routeOf(target.hookPath);
    if (folder === null || path === null) {
      const steps = ["Give the state directory of Hermes with --platform-state-dir"];
      return { change: null, steps, hookToken: null };
    }
    const hookToken = target.hookToken ?? (values.get("WEBHOOK_SECRET") || makeToken());
    const wanted = {
      WEBHOOK_ENABLED: "true",
      WEBHOOK_PORT: new URL(target.baseUrl).port || String(PORT),
      WEBHOOK_SECRET: hookToken,
    };
    const isSet = Object.entries(wanted).every(([name, value]) => values.get(name) === value);
    const routes = await machine.read(join(folder, "webhook_subscriptions.json"));
    const made = memberOf(tryParse(routes), route);
    const isMade = made !== undefined && (memberOf(made, "secret") ?? hookToken) === hookToken;
    return {
      change: isSet ? null : { path, before: text, text: withEnvValues(text, wanted) },
      steps: [
        ...(isSet ? [] : ["Restart Hermes: it reads its .env at start"]),
        ...(isMade ? [] : [`Create the route, with your own prompt: ${subscribe(route, folder)}`]),
      ],
      hookToken,
    };
  },
};

function routeOf(hookPath: string): string {
  return hookPath.replace(/^\/webhooks\//, "");
}

/**
 * The commands that create the route. The first is needed because the second looks only at `config.yaml`, not at
 * `.env`, and refuses otherwise. The second names the secret, because Hermes would make one that svc does not know.
 */
function subscribe(route: string, folder: string): string {
  const secret = `"$(sed -n 's/^WEBHOOK_SECRET=//p' ${shellWord(join(folder, ".env"))})"`;
  return "hermes config set platforms.webhook.enabled true && " +
    `hermes webhook subscribe ${route} --secret ${secret} --prompt "A message from another agent: {message}"`;
}

/** The state folder, and path, text and values of its `.env`; each but the values is `null` when there is none. */
async function settingsOf(machine: Machine, stateDir: string | null) {
  const home = machine.home === null ? null : join(machine.home, ".hermes");
  const folder = stateDir === null ? home : resolve(stateDir);
  const path = folder === null ? null : join(folder, ".env");
  const text = path === null ? null : await machine.read(path);
  return { folder, path, text, values: readEnvFile(text) };
}

async function hmac(secret: string, text: string): Promise<string> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", utf8Bytes(secret), algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, utf8Bytes(text))).toHex();
}
