/**
 * The client address of a request (D-49): the peer of the socket, or behind trusted proxies the right-most address that
 * is not a trusted proxy. The header of any other peer is ignored, because a client could otherwise choose its own
 * address.
 */
import { BlockList, isIP } from "node:net";
import { BoundedMap } from "../../bounded_map.ts";

/** Where a request comes from: the peer of a socket, or this process. */
export type Peer = { from: "socket"; address: string | null; info?: Sending } | { from: "process" };

/**
 * `completed` settles when the response is sent or its client is gone. Reading it makes the promise, so it is read
 * late.
 */
type Sending = Pick<Deno.ServeHandlerInfo, "completed">;

const UNKNOWN = "unknown";

/** Addresses and CIDR blocks of proxies whose `X-Forwarded-For` is trusted. */
export class TrustedProxies {
  readonly #list = new BlockList();

  /** @throws {TypeError} for a text that is not an address or a block */
  constructor(blocks: readonly string[]) {
    for (const block of blocks) {
      const [address = "", prefix, ...more] = block.split("/");
      const family = isIP(address);
      const bits = prefix === undefined ? (family === 4 ? 32 : 128) : Number(/^\d{1,3}$/.test(prefix) ? prefix : NaN);
      if (family === 0 || more.length > 0 || !(bits <= (family === 4 ? 32 : 128))) {
        throw new TypeError(`not an address or CIDR block: ${block}`);
      }
      // A client would be a trusted proxy too, so it could choose the address that its limits count.
      if (bits === 0) throw new TypeError(`${block} would let every client choose its own address`);
      this.#list.addSubnet(address, bits, family === 4 ? "ipv4" : "ipv6");
    }
  }

  readonly has = remembered((address) => {
    const plain = unmapped(address);
    const family = isIP(plain);
    return family !== 0 && this.#list.check(plain, family === 4 ? "ipv4" : "ipv6");
  });
}

/** With more, addresses that no longer ask take memory; with fewer, those of a busy server are looked at each time. */
const REMEMBERED = 1_000;
/** The longest address with a zone. A longer text is not kept, because a client could fill the memory with its headers. */
const ADDRESS_CHARACTERS = 64;

/** Returns a function that remembers its answers for the newest addresses, because each request asks for them again. */
function remembered<T extends string | boolean>(answer: (address: string) => T): (address: string) => T {
  const known = new BoundedMap<string, T>(REMEMBERED);
  return (address) => {
    if (address.length > ADDRESS_CHARACTERS) return answer(address);
    let found = known.get(address);
    if (found === undefined) known.set(address, found = answer(address));
    return found;
  };
}

/** Returns what a limit per IP counts for: an IPv4 address, the /64 network of an IPv6 address, or `unknown`. */
export function clientBucket(peer: Peer, forwardedFor: string | null, trusted: TrustedProxies): string {
  if (peer.from === "process") return "process";
  let address = peer.address;
  if (address !== null && forwardedFor !== null && trusted.has(address)) {
    const hops = forwardedFor.split(",").map((hop) => hop.trim());
    while (hops.length > 0 && trusted.has(address)) address = hops.pop() as string;
  }
  return address === null ? UNKNOWN : bucketOf(address);
}

const bucketOf = remembered((address) => {
  const plain = unmapped(address), family = isIP(plain);
  if (family === 6) return `${ipv6Groups(plain).slice(0, 4).join(":")}::/64`;
  return family === 4 ? plain : UNKNOWN;
});

/**
 * Returns the IPv4 address in an IPv4-mapped IPv6 address. Any other address is returned without its zone, and without
 * the port that some balancers add, because all clients behind them would otherwise count as one.
 */
export function unmapped(address: string): string {
  const plain = address.replace(/^\[([^\]]*)\](?::\d+)?$|^([\d.]+):\d+$/, "$1$2").replace(/%.*$/s, "");
  if (isIP(plain) !== 6) return plain;
  const groups = ipv6Groups(plain);
  if (!groups.slice(0, 5).every((group) => group === "0") || groups[5] !== "ffff") return plain;
  const [high, low] = [parseInt(groups[6] ?? "0", 16), parseInt(groups[7] ?? "0", 16)];
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

/** Returns the eight groups of a valid IPv6 address, without leading zeros. */
function ipv6Groups(address: string): string[] {
  // The URL parser turns every form of an address into one, even with an embedded IPv4 part.
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const left = head === "" ? [] : head.split(":");
  if (tail === undefined) return left;
  const right = tail === "" ? [] : tail.split(":");
  return [...left, ...Array(8 - left.length - right.length).fill("0"), ...right];
}
