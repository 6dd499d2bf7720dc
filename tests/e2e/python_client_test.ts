/** A client in another language, written from docs/protocol.md alone, sends a message and receives it. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { output } from "../cli/program.ts";
import { succeeds } from "../support/installed.ts";
import { ROOT, Service, within } from "../support/process.ts";
import { outputFor, PIPED } from "../support/process_output.ts";
import { SMALL_ORDER } from "../support/small_order.ts";

const CLIENT = new URL("../../docs/examples/client.py", import.meta.url);

const HAS_PYTHON = await succeeds("python3", ["-c", "import cryptography"]);
if (!HAS_PYTHON) console.log("python client: SKIPPED, no python3 with the package cryptography");

Deno.test({
  name: "a client in Python, written from docs/protocol.md, sends a message and receives it",
  ignore: !HAS_PYTHON,
  async fn() {
    await using service = await Service.here();
    const { url, apiKey } = service;
    const ran = output("python3", [CLIENT.pathname, url, apiKey]);
    const { code, stdout, stderr } = await within(60_000, "the Python client ends", ran);
    assertEquals([code, stderr], [0, ""], stdout);
    const { from, alpha, payload, answer } = JSON.parse(stdout);
    assertEquals([from, answer.accepted, answer.delivered], [alpha, true, true]);
    assertStringIncludes(payload.message, "Which port?");
  },
});

Deno.test({
  name:
    "a reader in Python opens the sealed body of the vectors and that of RFC 9180 A.1.1, and none that must not open",
  ignore: !HAS_PYTHON,
  async fn() {
    const program = new URL("../../docs/examples/open_sealed.py", import.meta.url).pathname;
    const vectors = await Deno.readTextFile(new URL("../vectors/seal.json", import.meta.url));
    const child = new Deno.Command("python3", { ...PIPED, args: [program] }).spawn();
    const { code, stdout, stderr } = await within(60_000, "the Python reader ends", outputFor(vectors, child));
    const payloads = (JSON.parse(vectors) as { valid: { payload: string }[] }).valid.map(({ payload }) => payload);
    assertEquals([code, stderr], [0, ""]);
    assertEquals(stdout.trimEnd().split("\n"), [
      ...payloads,
      "Beauty is truth, truth beauty",
    ]);
  },
});

Deno.test("the Python client has under 100 lines and needs one package", async () => {
  const text = await Deno.readTextFile(CLIENT);
  assertEquals(text.split("\n").length <= 100, true);
  const packages = [...text.matchAll(/^(?:from|import) ([a-z0-9]+)/gm)].map(([, name]) => name);
  assertEquals([...new Set(packages)], ["base64", "cryptography"]);
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

Deno.test({
  name: "the vectors verify in Python",
  ignore: !HAS_PYTHON,
  async fn() {
    const args = ["-c", PYTHON, `${ROOT}/tests/vectors`, ...SMALL_ORDER];
    const { stdout, stderr } = await output("python3", args);
    assertEquals(stderr, "");
    assertEquals(Number(stdout) > 20, true);
  },
});
