"""A registry of another server in Python, written from docs/protocol.md alone: its one agent pairs and sends a message.

    python3 registry.py 127.0.0.2 8788 svcpair1_…      # needs the package cryptography
"""
import hashlib, hmac, json, os, secrets, sys, threading, time, urllib.error, urllib.request
from base64 import urlsafe_b64decode, urlsafe_b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

b64 = lambda data: urlsafe_b64encode(data).rstrip(b"=").decode()
un64 = lambda text: urlsafe_b64decode(text + "=" * (-len(text) % 4))
digest = lambda text: b64(hashlib.sha256(text.encode()).digest())
public = lambda key: key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
ulid = lambda: "0" + "".join(secrets.choice("0123456789ABCDEFGHJKMNPQRSTVWXYZ") for _ in range(25))

class Registry(BaseHTTPRequestHandler):
    """Publishes the key that signs, and that nothing was ever revoked."""
    key, kid = Ed25519PrivateKey.generate(), "key-1"
    def do_GET(self):
        jwk = {"kid": self.kid, "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "x": b64(public(self.key))}
        answers = {"/.well-known/svc-keys.json": (200, {"keys": [{**jwk, "status": "active"}]}),
                   "/v1/crl": (404, {"error": {"code": "CRL_NOT_FOUND", "message": "nothing was revoked"}})}
        status, answer = answers.get(self.path, (404, {}))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())
    def log_message(self, *_):
        pass
    @classmethod
    def token(cls, typ, claims):
        part = lambda value: b64(json.dumps(value, separators=(",", ":")).encode())
        text = part({"alg": "EdDSA", "typ": typ, "kid": cls.kid}) + "." + part(claims)
        return text + "." + b64(cls.key.sign(text.encode()))

class Agent:
    def __init__(self, issuer, authority, name):
        self.key, self.name, self.issuer, self.jti = Ed25519PrivateKey.generate(), name, issuer, ulid()
        self.did, self.x = f"did:svc:{authority}:agent:{ulid()}", b64(public(self.key))
        now = int(time.time())
        self.ait = Registry.token("AIT", {
            "iss": issuer, "sub": self.did, "ownerDid": f"did:svc:{authority}:human:{ulid()}", "name": name,
            "framework": "generic", "cnf": {"jwk": {"kty": "OKP", "crv": "Ed25519", "x": self.x}},
            "iat": now, "nbf": now, "exp": now + 86400, "jti": self.jti})
    def post(self, origin, target, body, recipient="", headers=None):
        now, nonce = int(time.time()), b64(secrets.token_bytes(16))
        lines = ["SVC-PROOF-V1", "POST", origin, target, str(now), nonce, digest(body), recipient, digest(self.ait)]
        visit = {"iss": self.issuer, "sub": self.did, "aud": origin, "proxy": self.issuer, "aitJti": self.jti,
                 "iat": now, "exp": now + 300, "jti": ulid()}
        sent = {"Content-Type": "application/json", "Authorization": "Svc " + self.ait, "X-Svc-Timestamp": str(now),
                "X-Svc-Nonce": nonce, "X-Svc-Body-SHA256": digest(body), "X-Svc-Agent-Access": Registry.token("VIS", visit),
                "X-Svc-Proof": b64(self.key.sign("\n".join(lines).encode())), **(headers or {}),
                **({"X-Svc-Recipient-Agent-Did": recipient} if recipient else {})}
        try:
            with urllib.request.urlopen(urllib.request.Request(origin + target, body.encode(), sent), timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{target}: {error.code} {error.read().decode()}")

def proof_of_key(secret, role, did, x, profile):
    lines = ["SVC-PAIR-V1", role, did, x, profile["agentName"], profile["humanName"]]
    return b64(hmac.new(secret, "\n".join(lines).encode(), hashlib.sha256).digest())

two = lambda n: n.to_bytes(2, "big")
mac = lambda key, data: hmac.new(key, data, hashlib.sha256).digest()
KEM, SUITE = b"KEM" + two(0x20), b"HPKE" + two(0x20) + two(1) + two(1)
extract = lambda suite, salt, label, ikm: mac(salt, b"HPKE-v1" + suite + label + ikm)
expand = lambda suite, key, label, info, n: mac(key, two(n) + b"HPKE-v1" + suite + label + info + b"\x01")[:n]

def seal(payload, x, sender, recipient, context):
    """The sealed body for the agent with the Ed25519 key `x`. The payload is short, so it is padded to 256 bytes."""
    p = 2**255 - 19
    y = int.from_bytes(un64(x), "little") & (2**255 - 1)
    theirs = ((1 + y) * pow(1 - y, -1, p) % p).to_bytes(32, "little")
    own = X25519PrivateKey.generate()
    dh, enc = own.exchange(X25519PublicKey.from_public_bytes(theirs)), public(own)
    shared = expand(KEM, extract(KEM, b"", b"eae_prk", dh), b"shared_secret", enc + theirs, 32)
    info = "\n".join(["SVC-SEALED-V1", sender, recipient]).encode()
    keys = b"\0" + extract(SUITE, b"", b"psk_id_hash", b"") + extract(SUITE, b"", b"info_hash", info)
    secret = extract(SUITE, shared, b"secret", b"")
    key, nonce = expand(SUITE, secret, b"key", keys, 16), expand(SUITE, secret, b"base_nonce", keys, 12)
    plain = (os.urandom(32) + len(payload).to_bytes(4, "big") + payload).ljust(256, b"\0")
    ct = AESGCM(key).encrypt(nonce, plain, context.encode())
    return json.dumps({"svcSealed": 1, "enc": b64(enc), "ct": b64(ct)}, separators=(",", ":"))

def main(host, port, ticket):
    threading.Thread(target=ThreadingHTTPServer((host, int(port)), Registry).serve_forever, daemon=True).start()
    beta = Agent(f"http://{host}:{port}", host, "py-beta")
    first, second, authority = ticket.split(".", 2)
    origin, secret, profile = "http://" + authority, un64(second), {"agentName": beta.name, "humanName": "Bob"}
    key = {"publicKey": beta.x, "mac": proof_of_key(secret, "responder", beta.did, beta.x, profile)}
    body = {"ticket": f"{first}.-.{authority}", "responderProfile": profile, "responderKey": key}
    peer = beta.post(origin, "/pair/confirm", json.dumps(body))
    did, theirs = peer["initiatorAgentDid"], peer["initiatorKey"]
    if proof_of_key(secret, "initiator", did, theirs["publicKey"], peer["initiatorProfile"]) != theirs["mac"]:
        raise SystemExit("the answer is not of the agent that made the ticket")
    request_id = ulid()
    context = f"SVC-CONTEXT-V1\ncontent-type:application/json\nx-request-id:{request_id}"
    sealed = seal(b'{"message":"Hello from Python"}', theirs["publicKey"], beta.did, did, context)
    print(json.dumps(beta.post(origin, "/hooks/agent?ctx=" + digest(context), sealed, did, {"x-request-id": request_id})))

if __name__ == "__main__":
    main(*sys.argv[1:])
