/**
 * Verifies the vectors of docs/proof.md without the code of this project: with WebCrypto alone, and in Python. A rule that only the
 * project's own code knows would fail here.
 */
import { assertEquals } from "@std/assert";
import { ROOT } from "../support/child_command.ts";

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

/** The points of small order, without the bit of their sign: anyone can sign for such a key. */
const SMALL_ORDER = [
  "00".repeat(32),
  `01${"00".repeat(31)}`,
  `ec${"ff".repeat(30)}7f`,
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
];

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

Deno.test("the receipts verify with WebCrypto alone", async () => {
  const { keys: { keys }, ait, valid, invalid } = read("receipt");
  const owner = await claimsOf(ait, keys);
  for (const { name, token, body, payload, salt } of valid) {
    const claims = await claimsOf(token, owner === null ? [] : [{ kid: keyIn(owner), x: keyIn(owner) }]);
    assertEquals(claims?.iss, owner?.sub, name);
    assertEquals(claims?.bodySha256, await sha256(utf8(body)), name);
    if (salt === null) continue;
    assertEquals(claims?.payloadSha256, await sha256(new Uint8Array([...bytesOf(salt), ...utf8(payload)])), name);
  }
  for (const { name, token, reason } of invalid) {
    if (reason !== "signature") continue;
    assertEquals(await claimsOf(token, [{ kid: keyIn(owner ?? {}), x: keyIn(owner ?? {}) }]), null, name);
  }
});

const PYTHON = `
import base64, hashlib, hmac, json, sys
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
def raw(text): return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
def b64(data): return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
def sha(data): return b64(hashlib.sha256(data).digest())
def signed(x, signature, data):
    try: Ed25519PublicKey.from_public_bytes(raw(x)).verify(raw(signature), data); return True
    except InvalidSignature: return False
def claims(token, keys):
    head, payload, signature = token.split(".")
    kid = json.loads(raw(head))["kid"]
    x = next((key["x"] for key in keys if key["kid"] == kid), None)
    if x is None or not signed(x, signature, (head + "." + payload).encode()): return None
    return json.loads(raw(payload))
def load(name): return json.load(open(sys.argv[1] + "/" + name + ".json", encoding="utf-8"))
done = 0
file = load("message-proof")
for row in file["valid"] + file["invalid"]:
    frame, proof = row["frame"], row["frame"]["proof"]
    owner = claims(proof["ait"], file["keys"]["keys"])
    at, length, text = proof.get("edit", [0, 0, ""])
    payload = frame["payload"].encode()
    body = payload[:at] + text.encode() + payload[at + length:]
    lines = ["SVC-PROOF-V1", "POST", proof["origin"], proof["target"], proof["timestamp"], proof["nonce"],
             sha(body), frame["toAgentDid"], sha(proof["ait"].encode())]
    good = owner is not None and owner["sub"] == frame["fromAgentDid"] and \\
        signed(owner["cnf"]["jwk"]["x"], proof["signature"], "\\n".join(lines).encode())
    path, _, ctx = proof["target"].partition("?ctx=")
    text = "\\n".join(["SVC-CONTEXT-V1"] + [name + ":" + value for name, value in sorted(proof["context"].items())])
    said = {"content-type": frame["contentType"], "x-request-id": frame["requestId"],
            "x-svc-conversation-id": frame.get("conversationId"), "x-svc-in-reply-to": frame.get("inReplyTo"),
            "x-svc-auto": "1" if frame.get("auto") else None}
    if path != "/hooks/agent" or ctx and (ctx != sha(text.encode()) or any(proof["context"].get(k) != v for k, v in said.items())):
        good = False
    assert good == ("reason" not in row), row["name"]
    assert not good or body.decode() == row["body"], row["name"]
    done += 1
for kind, expected in (("valid", True), ("invalid", False)):
    for row in load("pairing")[kind]:
        side = row["side"]
        lines = ["SVC-PAIR-V1", side["role"], side["did"], row["publicKey"], side["profile"]["agentName"], side["profile"]["humanName"]]
        mac = b64(hmac.new(raw(row["secret"]), "\\n".join(lines).encode(), hashlib.sha256).digest())
        point = bytearray(raw(row["publicKey"])); point[31] &= 127
        assert (mac == row["mac"] and point.hex() not in sys.argv[2:]) == expected, row["name"]
        done += 1
file = load("receipt")
owner = claims(file["ait"], file["keys"]["keys"])
key = owner["cnf"]["jwk"]["x"]
for row in file["valid"]:
    said = claims(row["token"], [{"kid": key, "x": key}])
    assert said["iss"] == owner["sub"] and said["bodySha256"] == sha(row["body"].encode()), row["name"]
    assert row["salt"] is None or said["payloadSha256"] == sha(raw(row["salt"]) + row["payload"].encode()), row["name"]
    done += 1
for row in load("context")["valid"]:
    assert row["target"].partition("?ctx=")[2] == sha(row["context"].encode()), row["name"]
    done += 1
print(done)
`;

const HAS_PYTHON = await new Deno.Command("python3", { args: ["-c", "import cryptography"], stderr: "null" }).output()
  .then(({ success }) => success, () => false);
if (!HAS_PYTHON) {
  console.log("The vectors are NOT verified in Python here: there is no python3 with the package cryptography");
}

Deno.test({
  name: "the vectors verify in Python",
  ignore: !HAS_PYTHON,
  async fn() {
    const args = ["-c", PYTHON, `${ROOT}/tests/vectors`, ...SMALL_ORDER];
    const { stdout, stderr } = await new Deno.Command("python3", { args }).output();
    assertEquals(new TextDecoder().decode(stderr), "");
    assertEquals(Number(new TextDecoder().decode(stdout)) > 20, true);
  },
});
