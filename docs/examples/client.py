"""A client of svc in Python, written from docs/protocol.md alone: two agents pair, and one sends the other a message.

    python3 client.py http://127.0.0.1:8787 svc_pat_…      # needs the package cryptography
"""
import base64, hashlib, json, os, secrets, socket, ssl, struct, sys, threading, time, urllib.error, urllib.parse, urllib.request
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
def digest(text):
    return b64(hashlib.sha256(text.encode()).digest())
def call(method, url, headers=None, body=None):
    data = None if body is None else body.encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or "null")
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{method} {url}: {error.code} {error.read().decode()}")

class Agent:
    def __init__(self, base, api_key, name):
        self.key, self.name = Ed25519PrivateKey.generate(), name
        self.proxy = call("GET", base + "/v1/metadata")["proxyUrl"]
        public = b64(self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        person = {"Authorization": "Bearer " + api_key}
        challenge = call("POST", base + "/v1/agents/challenge", person, json.dumps({"publicKey": public}))
        lines = ["svc.register.v1"] + [f"{label}:{value}" for label, value in [
            ("challengeId", challenge["challengeId"]), ("nonce", challenge["nonce"]),
            ("ownerDid", challenge["ownerDid"]), ("publicKey", public), ("name", name), ("framework", ""), ("ttlDays", "")]]
        made = call("POST", base + "/v1/agents", person, json.dumps({
            "name": name, "publicKey": public, "challengeId": challenge["challengeId"],
            "challengeSignature": b64(self.key.sign("\n".join(lines).encode()))}))
        self.did, self.ait, self.access = made["agent"]["did"], made["ait"], made["agentAuth"]["accessToken"]
    def signed(self, method, target, body="", recipient=""):
        """The headers of one request: a nonce is used once."""
        timestamp, nonce = str(int(time.time())), b64(secrets.token_bytes(16))
        lines = ["SVC-PROOF-V1", method, self.proxy, target, timestamp, nonce, digest(body), recipient, digest(self.ait)]
        headers = {"Authorization": "Svc " + self.ait, "X-Svc-Timestamp": timestamp, "X-Svc-Nonce": nonce,
                   "X-Svc-Body-SHA256": digest(body), "X-Svc-Proof": b64(self.key.sign("\n".join(lines).encode())),
                   "X-Svc-Agent-Access": self.access}
        return {**headers, "X-Svc-Recipient-Agent-Did": recipient} if recipient else headers
    def post(self, target, body, recipient=""):
        text = json.dumps(body)
        return call("POST", self.proxy + target, self.signed("POST", target, text, recipient), text)

class Link:
    """The relay socket (RFC 6455), as far as frames of text need it."""
    def __init__(self, agent):
        url = urllib.parse.urlsplit(agent.proxy)
        port = url.port or (443 if url.scheme == "https" else 80)
        self.socket = socket.create_connection((url.hostname, port), timeout=30)
        if url.scheme == "https":
            self.socket = ssl.create_default_context().wrap_socket(self.socket, server_hostname=url.hostname)
        headers = {"Host": url.netloc, "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(), **agent.signed("GET", "/v1/relay/connect")}
        lines = ["GET /v1/relay/connect HTTP/1.1"] + [f"{name}: {value}" for name, value in headers.items()]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.file = self.socket.makefile("rb")
        status = self.file.readline().decode()
        if " 101 " not in status:
            raise SystemExit("not connected: " + status)
        while self.file.readline().strip():
            pass  # The other headers say nothing that is needed here.
    def receive(self):
        first, length = self.file.read(2)
        if length > 125:
            length = struct.unpack(">H" if length == 126 else ">Q", self.file.read(2 if length == 126 else 8))[0]
        return json.loads(self.file.read(length)) if first & 15 == 1 else {"type": "control"}
    def send(self, kind, **members):
        when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        identifier = "0" + "".join(secrets.choice("0123456789ABCDEFGHJKMNPQRSTVWXYZ") for _ in range(25))
        data = json.dumps({"v": 1, "type": kind, "id": identifier, "ts": when, **members}).encode()
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
        self.socket.sendall(b"\x81" + struct.pack(">BH", 254, len(data)) + mask + masked)

def main(base, api_key):
    alpha, beta = (Agent(base, api_key, name) for name in ("py-alpha", "py-beta"))
    profile = lambda agent: {"agentName": agent.name, "humanName": "Ada"}
    ticket = alpha.post("/pair/start", {"initiatorProfile": profile(alpha)})["ticket"]
    beta.post("/pair/confirm", {"ticket": ticket, "responderProfile": profile(beta)})
    link = Link(beta)
    answer = {}
    # 202 comes only after the acknowledgement, so one of the two waits in a thread of its own.
    sender = threading.Thread(target=lambda: answer.update(alpha.post("/hooks/agent", {"message": "Which port?"}, beta.did)))
    sender.start()
    frame = link.receive()
    while frame["type"] != "deliver":
        if frame["type"] == "heartbeat":
            link.send("heartbeat_ack", ackId=frame["id"])
        frame = link.receive()
    link.send("deliver_ack", ackId=frame["id"], accepted=True)
    sender.join()
    print(json.dumps({"from": frame["fromAgentDid"], "alpha": alpha.did, "payload": frame["payload"], "answer": answer}))

if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"), sys.argv[2])
