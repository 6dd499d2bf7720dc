"""Opens a sealed payload (docs/protocol.md#sealed-payloads): python3 open_sealed.py < seal.json"""
import hashlib, hmac, json, re, sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

two = lambda n: n.to_bytes(2, "big")
mac = lambda key, data: hmac.new(key, data, hashlib.sha256).digest()
KEM, SUITE = b"KEM" + two(0x20), b"HPKE" + two(0x20) + two(1) + two(1)
extract = lambda suite, salt, label, ikm: mac(salt, b"HPKE-v1" + suite + label + ikm)
expand = lambda suite, key, label, info, n: mac(key, two(n) + b"HPKE-v1" + suite + label + info + b"\x01")[:n]


def un64(text):
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if urlsafe_b64encode(data).rstrip(b"=") != text.encode():
        raise ValueError("another spelling")
    return data


def hpke_open(private_key, enc, info, aad, ct):
    """RFC 9180, base mode, one message: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM."""
    own = X25519PrivateKey.from_private_bytes(private_key)
    dh = own.exchange(X25519PublicKey.from_public_bytes(enc))
    both = enc + own.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    shared = expand(KEM, extract(KEM, b"", b"eae_prk", dh), b"shared_secret", both, 32)
    context = b"\0" + extract(SUITE, b"", b"psk_id_hash", b"") + extract(SUITE, b"", b"info_hash", info)
    secret = extract(SUITE, shared, b"secret", b"")
    key, nonce = expand(SUITE, secret, b"key", context, 16), expand(SUITE, secret, b"base_nonce", context, 12)
    return AESGCM(key).decrypt(nonce, ct, aad)


def open_sealed(body, seed, sender, recipient, context):
    """The payload of a body: `seed` is the Ed25519 seed in secret.key, `context` the text of the signed context."""
    parts = re.fullmatch(r'\{"svcSealed":1,"enc":"([\w-]{43})","ct":"([\w-]*)"\}', body, re.ASCII)
    if parts is None:
        raise ValueError("form")
    key = bytearray(hashlib.sha512(un64(seed)).digest()[:32])
    key[0], key[31] = key[0] & 248, key[31] & 127 | 64
    info = "\n".join(["SVC-SEALED-V1", sender, recipient]).encode()
    plain = hpke_open(bytes(key), un64(parts[1]), info, context.encode(), un64(parts[2]))
    end = 36 + int.from_bytes(plain[32:36], "big")
    if end > len(plain) or any(plain[end:]):
        raise ValueError("length or padding")
    payload = plain[36:end].decode()
    json.loads(payload)
    return payload


if __name__ == "__main__":
    vectors = json.load(sys.stdin)
    bound = vectors["binding"]
    opened = lambda row: open_sealed(row["body"], vectors["recipient"]["seed"], *(bound[x] for x in ("from", "to", "context")))
    for row in vectors["valid"]:
        print(opened(row))
    for row in vectors["invalid"]:
        try:
            print("Must not open:", row["name"], opened(row))
        except (ValueError, InvalidTag):
            pass
    rfc = {name: bytes.fromhex(text) for name, text in vectors["rfc9180"].items()}
    print(hpke_open(rfc["privateKey"], rfc["enc"], rfc["info"], rfc["aad"], rfc["ct"]).decode())
