/**
 * Fills a store like that of a service after a long run: agents with their sessions and pairs, and unexpired nonces.
 * Runs before the service starts.
 *
 *   deno run --allow-read=<folder> --allow-write=<folder> tests/bench/grow.ts <file> <agents> <nonces>
 */
import { KEYS as PROXY } from "../../proxy/schema/kv_keys.ts";
import { NONCE_BYTES, nonceName, packPart, putNonce } from "../../proxy/schema/sender_record.ts";
import { KEYS as REGISTRY } from "../../registry/schema/kv_keys.ts";
import { ulidSource } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";

const [path = "", agents = "0", nonces = "0"] = Deno.args;
const newId = ulidSource(() => Date.now(), (n) => crypto.getRandomValues(new Uint8Array(n)));
const TOGETHER = 100;
const TEN_MINUTES_MS = 600_000;
const digest = "d".repeat(43);

type Record = [key: Deno.KvKey, value: unknown, expireInMs?: number];

const dids: string[] = [];

function agent(): Record[] {
  const id = newId(), did = `did:svc:127.0.0.1:agent:${id}`, peer = dids.at(-1) ?? did;
  dids.push(did);
  const at = Date.now();
  return [
    [REGISTRY.agent(id), { id, did, ownerId: newId(), name: "grown", status: "active", currentJti: newId() }],
    [REGISTRY.session(id), {
      status: "active",
      accessDigest: digest,
      accessExpiresAt: at,
      refreshDigest: digest,
      refreshExpiresAt: at,
      previousDigest: null,
      previousExpiresAt: 0,
      refreshedAtSeconds: 0,
      createdAt: at,
    }],
    [PROXY.pair(did, peer), { pairedAt: at }],
  ];
}

/** A sealed part of a sender with random nonces of the present. */
function part(i: number): Record[] {
  const key = PROXY.senderPart(dids[i % dids.length] ?? "", Math.floor(i / dids.length));
  const now = Date.now();
  const nonce = { timestamp: Math.floor(now / 1000), expiresAt: now + TEN_MINUTES_MS / 2 };
  const nonces = new Uint8Array(LIMITS.senderPartNonces * NONCE_BYTES), view = new DataView(nonces.buffer);
  for (let at = 0; at < nonces.length; at += NONCE_BYTES) {
    putNonce(view, at, {
      ...nonce,
      name: nonceName(crypto.getRandomValues(new Uint8Array(32)).toHex()),
    });
  }
  return [[key, packPart(nonces), TEN_MINUTES_MS]];
}

async function write(kv: Deno.Kv, count: number, make: (i: number) => Record[]): Promise<void> {
  for (let i = 0; i < count; i += TOGETHER) {
    const operation = kv.atomic();
    for (let k = i; k < Math.min(count, i + TOGETHER); k++) {
      for (const [key, value, expireIn] of make(k)) operation.set(key, value, expireIn ? { expireIn } : {});
    }
    await operation.commit();
  }
}

const kv = await Deno.openKv(path);
await write(kv, Number(agents), agent);
await write(kv, Math.ceil(Number(nonces) / LIMITS.senderPartNonces), part);
kv.close();
console.log("prepared");
