/**
 * Hermes: its webhook adapter takes messages at `/webhooks/<route>`, signed with its secret over time and body, and drops
 * what it has seen by `X-Request-ID`. On when `~/.hermes/.env` says so; a route is made by its own command.
 */
import { join } from "node:path";
import { encodeHex } from "@std/encoding/hex";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import type { Finding, Machine } from "./machine.ts";
import { type Platform, senderHeaders } from "./platform.ts";
import { memberOf, readEnvFile, withEnvValues } from "./settings.ts";

const PORT = 8_644;

export const HERMES: Platform = {
  id: "hermes",
  name: "Hermes",
  defaults: { baseUrl: `http://127.0.0.1:${PORT}`, hookPath: "/webhooks/svc" },
  timeoutMs: 10_000,
  needsToken: true,
  health: {
    path: "/health",
    isHealthy(status, body) {
      try {
        return status === 200 && memberOf(JSON.parse(body), "platform") === "webhook";
      } catch {
        return false;
      }
    },
  },

  async request(message, { hookToken }, nowSeconds) {
    const body = message.payload;
    const headers = {
      ...senderHeaders(message),
      // Hermes dedupes by this one: a sender's own id would clash with another sender's.
      "x-request-id": message.idempotencyKey,
    };
    if (hookToken === null) return { headers, body };
    const signature = await hmac(hookToken, `${nowSeconds}.${body}`);
    return {
      headers: { ...headers, "X-Webhook-Timestamp": String(nowSeconds), "X-Webhook-Signature-V2": signature },
      body,
    };
  },

  async detect(machine) {
    const reasons: string[] = [];
    const folder = stateOf(machine, null);
    const configPath = folder === null ? null : join(folder, ".env");
    if (folder !== null && await machine.exists(folder)) reasons.push(`its folder is at ${folder}`);
    const values = readEnvFile(configPath === null ? null : await machine.read(configPath));
    if (values.get("WEBHOOK_ENABLED") === "true") reasons.push("its webhooks are on");
    const port = Number(values.get("WEBHOOK_PORT") ?? PORT);
    const baseUrl = `http://127.0.0.1:${Number.isInteger(port) ? port : PORT}`;
    const answer = await machine.ask(`${baseUrl}/health`);
    const isLive = answer !== null && (HERMES.health?.isHealthy(answer.status, answer.body) ?? false);
    if (isLive) reasons.push(`its webhook adapter answers at ${baseUrl}`);
    const confidence: Finding["confidence"] = reasons.length === 0 ? "none" : isLive ? "high" : "medium";
    return { confidence, reasons, configPath, baseUrl };
  },

  async plan(machine, { target, stateDir, makeToken }) {
    const folder = stateOf(machine, stateDir);
    const route = target.hookPath.replace(/^\/webhooks\//, "");
    const { hookPath } = target;
    if (folder === null) {
      return {
        changes: [],
        steps: ["Say where Hermes keeps its state: --platform-state-dir"],
        hookToken: null,
        hookPath,
      };
    }
    const path = join(folder, ".env");
    const text = await machine.read(path);
    const values = readEnvFile(text);
    const hookToken = target.hookToken ?? (values.get("WEBHOOK_SECRET") || makeToken());
    const wanted = {
      WEBHOOK_ENABLED: "true",
      WEBHOOK_PORT: new URL(target.baseUrl).port || String(PORT),
      WEBHOOK_SECRET: hookToken,
    };
    const isSet = Object.entries(wanted).every(([name, value]) => values.get(name) === value);
    const routes = await machine.read(join(folder, "webhook_subscriptions.json"));
    const hasRoute = memberOf(tryParse(routes), route) !== undefined;
    return {
      changes: isSet ? [] : [{ path, text: withEnvValues(text, wanted) }],
      steps: [
        ...(isSet ? [] : ["Start Hermes anew: it reads its .env when it starts"]),
        ...(hasRoute ? [] : [
          `Make the route, with a prompt of your own: hermes webhook subscribe ${route} --prompt "A message from another agent: {message}"`,
        ]),
      ],
      hookToken,
      hookPath,
    };
  },
};

function stateOf(machine: Machine, stateDir: string | null): string | null {
  return stateDir ?? (machine.home === null ? null : join(machine.home, ".hermes"));
}

async function hmac(secret: string, text: string): Promise<string> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", utf8Bytes(secret), algorithm, false, ["sign"]);
  return encodeHex(new Uint8Array(await crypto.subtle.sign("HMAC", key, utf8Bytes(text))));
}

function tryParse(text: string | null): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return null;
  }
}
