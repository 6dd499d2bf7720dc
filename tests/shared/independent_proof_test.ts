/**
 * Verifies the vectors of docs/proof.md without the code of this project: with WebCrypto alone, and in Python. A rule that only the
 * project's own code knows would fail here.
 */
import { assertEquals } from "@std/assert";
import { ROOT } from "../support/child_command.ts";
import { SMALL_ORDER } from "../support/small_order.ts";

type Json = Record<string, unknown>;
interface Key {
  kid: string;
  x: string;
}
/** The rows of a file, as another program reads them. */
// deno-lint-ignore no-explicit-any
const read = (name: string): any => JSON.parse(Deno.readTextFileSync(`${ROOT}/tests/vectors/${name}.json`));

const utf8 = (text: string) => new TextEncoder().encode(text);
const bytesOf = (text: string) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
const base64Url = (bytes: ArrayBuffer) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const sha256 = async (data: Uint8Array<ArrayBuffer>) => base64Url(await crypto.subtle.digest("SHA-256", data));

async function isSigned(x: string, signature: string, data: Uint8Array<ArrayBuffer>): Promise<boolean> {
  const key = await crypto.subtle.importKey("raw", bytesOf(x), "Ed25519", false, ["verify"]);
  return await crypto.subtle.verify("Ed25519", key, bytesOf(signature), data);
}

/** The claims of a token that one of the keys signed; `null` for any other. */
async function claimsOf(token: string, keys: readonly Key[]): Promise<Json | null> {
  const [header = "", payload = "", signature = ""] = token.split(".");
  const { kid } = JSON.parse(new TextDecoder().decode(bytesOf(header)));
  const key = keys.find((one) => one.kid === kid);
  if (!key || !await isSigned(key.x, signature, utf8(`${header}.${payload}`))) return null;
  return JSON.parse(new TextDecoder().decode(bytesOf(payload)));
}

const payloadOf = (token: string) => new TextDecoder().decode(bytesOf(token.split(".")[1] ?? ""));
const keyIn = (claims: Json) => (claims.cnf as { jwk: { x: string } }).jwk.x;

/** `genuine`, or the check that fails. */
// deno-lint-ignore no-explicit-any
async function judged(frame: any, keys: readonly Key[]): Promise<{ verdict: string; body: string }> {
  const { proof } = frame;
  const claims = await claimsOf(proof.ait, keys);
  const payload = utf8(frame.payload);
  const [offset, length, text] = proof.edit ?? [0, 0, ""];
  const body = new Uint8Array([...payload.subarray(0, offset), ...utf8(text), ...payload.subarray(offset + length)]);
  const shown = (verdict: string) => ({ verdict, body: new TextDecoder().decode(body) });
  if (claims === null || claims.sub !== frame.fromAgentDid) return shown("token");
  const lines = ["SVC-PROOF-V1", "POST", proof.origin, proof.target, proof.timestamp, proof.nonce];
  lines.push(await sha256(body), frame.toAgentDid, await sha256(utf8(proof.ait)));
  const [path, ctx] = proof.target.split("?ctx=");
  const context = Object.entries(proof.context as Record<string, string>).sort(([a], [b]) => a < b ? -1 : 1);
  const said: [string, string | undefined][] = [
    ["content-type", frame.contentType],
    ["x-request-id", frame.requestId],
    ["x-svc-conversation-id", frame.conversationId],
    ["x-svc-in-reply-to", frame.inReplyTo],
    ["x-svc-auto", frame.auto && "1"],
  ];
  const hash = await sha256(utf8(["SVC-CONTEXT-V1", ...context.map(([name, value]) => `${name}:${value}`)].join("\n")));
  const isSame = said.every(([name, value]) => proof.context[name] === value);
  if (path !== "/hooks/agent" || ctx !== undefined && (ctx !== hash || !isSame)) return shown("context");
  return shown(await isSigned(keyIn(claims), proof.signature, utf8(lines.join("\n"))) ? "genuine" : "signature");
}

Deno.test("the message proofs verify with WebCrypto alone, and the others fail at their check", async () => {
  const { keys: { keys }, valid, invalid } = read("message-proof");
  for (const { name, frame, body } of valid) {
    assertEquals(await judged(frame, keys), { verdict: "genuine", body }, name);
  }
  for (const { name, frame, reason } of invalid) assertEquals((await judged(frame, keys)).verdict, reason, name);
});

Deno.test("the signed contexts have their hashes with WebCrypto alone", async () => {
  for (const { name, context, target } of read("context").valid) {
    assertEquals(target.split("?ctx=")[1], await sha256(utf8(context)), name);
  }
});

function isSmallOrder(publicKey: string): boolean {
  const bytes = bytesOf(publicKey);
  bytes[31] = (bytes[31] ?? 0) & 0x7f;
  return SMALL_ORDER.includes([...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(""));
}

Deno.test("the proofs of keys at pairing verify with WebCrypto alone", async () => {
  const { valid, invalid } = read("pairing");
  for (const [rows, expected] of [[valid, true], [invalid, false]] as const) {
    for (const { name, secret, side: { role, did, profile }, publicKey, mac } of rows) {
      const use = { name: "HMAC", hash: "SHA-256" };
      const key = await crypto.subtle.importKey("raw", bytesOf(secret), use, false, ["verify"]);
      const lines = ["SVC-PAIR-V1", role, did, publicKey, profile.agentName, profile.humanName];
      const isProven = await crypto.subtle.verify("HMAC", key, bytesOf(mac), utf8(lines.join("\n")));
      assertEquals(isProven && !isSmallOrder(publicKey), expected, name);
    }
  }
});

/** Claims of a receipt, and whether the value of each is one of its form. */
const isHash = (text: unknown) => typeof text === "string" && /^[\w-]{43}$/.test(text) && bytesOf(text).length === 32;
const isText = (text: unknown) => typeof text === "string" && text !== "";
const RECEIPT: Record<string, (value: unknown) => boolean> = {
  iss: (did) => /^did:svc:[^:]+:agent:\w{26}$/.test(String(did)),
  sub: (did) => /^did:svc:[^:]+:agent:\w{26}$/.test(String(did)),
  ...{ jti: isText, requestId: isText, nonce: isText, conversationId: isText },
  ...{ bodySha256: isHash, payloadSha256: isHash },
  iat: Number.isInteger,
  status: (status) => status === "processed_by_svc" || status === "dead_lettered",
};
const OPTIONAL = ["conversationId", "payloadSha256"];

function areOfReceipt(claims: Json, payload: string): boolean {
  const names = [...payload.matchAll(/[{,]"(\w+)":/g)].map(([, name = ""]) => name);
  return new Set(names).size === names.length && names.every((name) => RECEIPT[name]?.(claims[name])) &&
    Object.keys(RECEIPT).every((name) => name in claims || OPTIONAL.includes(name));
}

Deno.test("the receipts verify with WebCrypto alone, and the others fail at signature or claims", async () => {
  const { keys: { keys }, ait, valid, invalid } = read("receipt");
  const owner = await claimsOf(ait, keys);
  for (const { name, token, body, payload, salt } of valid) {
    const claims = await claimsOf(token, owner === null ? [] : [{ kid: keyIn(owner), x: keyIn(owner) }]);
    assertEquals([claims?.iss, areOfReceipt(claims ?? {}, payloadOf(token))], [owner?.sub, true], name);
    assertEquals(claims?.bodySha256, await sha256(utf8(body)), name);
    if (salt === null) continue;
    assertEquals(claims?.payloadSha256, await sha256(new Uint8Array([...bytesOf(salt), ...utf8(payload)])), name);
  }
  for (const { name, token, reason } of invalid) {
    if (!["signature", "claims"].includes(reason)) continue;
    const claims = await claimsOf(token, [{ kid: keyIn(owner ?? {}), x: keyIn(owner ?? {}) }]);
    assertEquals(
      claims === null ? "signature" : areOfReceipt(claims, payloadOf(token)) ? "valid" : "claims",
      reason,
      name,
    );
  }
});
