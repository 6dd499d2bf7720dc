/**
 * Whose request it is, as far as an address can tell (D-49): the socket's peer, or behind a trusted proxy the
 * right-most hop that is not one. Never believes a header from anybody else.
 */
import { BlockList, isIP } from "node:net";

/** Where a request came from: a socket's peer address, or this very process. */
export type Peer = { from: "socket"; address: string | null } | { from: "process" };

/** Bucket of callers whose address is not known. */
const UNKNOWN = "unknown";

/** Addresses and CIDR blocks whose `X-Forwarded-For` counts. */
export class TrustedProxies {
  readonly #list = new BlockList();

  /** @throws {TypeError} for a text that is no address or block */
  constructor(blocks: readonly string[]) {
    for (const block of blocks) {
      const [address = "", prefix, ...more] = block.split("/");
      const family = isIP(address);
      const bits = prefix === undefined ? (family === 4 ? 32 : 128) : Number(/^\d{1,3}$/.test(prefix) ? prefix : NaN);
      if (family === 0 || more.length > 0 || !(bits <= (family === 4 ? 32 : 128))) {
        throw new TypeError(`not an address or CIDR block: ${block}`);
      }
      this.#list.addSubnet(address, bits, family === 4 ? "ipv4" : "ipv6");
    }
  }

  /** True when the address is one of them. */
  has(address: string): boolean {
    const plain = unmapped(address);
    const family = isIP(plain);
    return family !== 0 && this.#list.check(plain, family === 4 ? "ipv4" : "ipv6");
  }
}

/** The bucket of a request: an IPv4 address, the /64 of an IPv6 address, or `unknown`. */
export function clientBucket(peer: Peer, forwardedFor: string | null, trusted: TrustedProxies): string {
  if (peer.from === "process") return "process";
  let address = peer.address;
  if (address !== null && forwardedFor !== null && trusted.has(address)) {
    const hops = forwardedFor.split(",").map((hop) => hop.trim());
    while (hops.length > 0 && trusted.has(address)) address = hops.pop() as string;
  }
  return address === null ? UNKNOWN : bucketOf(address);
}

function bucketOf(address: string): string {
  const plain = unmapped(address);
  switch (isIP(plain)) {
    case 4:
      return plain;
    case 6:
      return `${ipv6Groups(plain).slice(0, 4).join(":")}::/64`;
    default:
      return UNKNOWN;
  }
}

/** An IPv4-mapped IPv6 address as its IPv4 address; any other as it is, without zone. */
function unmapped(address: string): string {
  const plain = address.replace(/^\[|\]$/g, "").replace(/%.*$/s, "");
  if (isIP(plain) !== 6) return plain;
  const groups = ipv6Groups(plain);
  if (!groups.slice(0, 5).every((group) => group === "0") || groups[5] !== "ffff") return plain;
  const [high, low] = [parseInt(groups[6] ?? "0", 16), parseInt(groups[7] ?? "0", 16)];
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

/** The eight groups of a valid IPv6 address in short form. */
function ipv6Groups(address: string): string[] {
  // The URL parser writes every form of an address the same way, an embedded IPv4 part included.
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const left = head === "" ? [] : head.split(":");
  if (tail === undefined) return left;
  const right = tail === "" ? [] : tail.split(":");
  return [...left, ...Array(8 - left.length - right.length).fill("0"), ...right];
}
