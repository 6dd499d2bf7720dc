/**
 * Finds out which user listens at a port of this machine (D-397). Any user may take a free port, so when a program has
 * ended, another user can take its address and get every token and message that is sent there. The system knows the
 * owner of a listening socket; a port that changes hands between the look and the connection is not noticed.
 */
import { isLoopback } from "./service_url.ts";

export interface PortSystem {
  os: string;
  /** User ID of this process; `null` on systems without user IDs. */
  uid: number | null;
  /** Returns the text of a file, or `null` when it cannot be read. */
  read(path: string): Promise<string | null>;
  /**
   * Returns what a program prints, even if it exits with an error, because `grep` and `lsof` do so when they find
   * nothing. Returns `null` when it cannot run or hangs.
   */
  run(command: string, args: string[]): Promise<string | null>;
  /** Tells whether an address accepts connections. */
  reach(url: string): Promise<boolean>;
}

/** Name of the problem, in statuses and in the output of `doctor`. */
export const OTHER_USER = "runtime_of_other_user";

/** Tells whether a connection to the address would reach a process of another user. Root does not count as one. */
export async function isOfOtherUser(system: PortSystem, url: string): Promise<boolean> {
  const { os, uid } = system;
  const { origin, hostname, port, protocol } = new URL(url);
  if (uid === null || !isLoopback(origin)) return false;
  const number = Number(port || (protocol === "https:" ? 443 : 80));
  if (os === "linux") {
    const hexPort = number.toString(16).toUpperCase().padStart(4, "0");
    const rows = await rowsOf(system, hexPort);
    return rows !== null && otherListens(rows, hostname, hexPort, uid);
  }
  if (os !== "darwin") return false;
  const text = await system.run("lsof", ["-nP", `-iTCP:${number}`, "-sTCP:LISTEN", "-Fu"]);
  if (text === null) return false;
  const owners = [...text.matchAll(/^u(\d+)$/gm)].map(([, owner]) => Number(owner));
  // `lsof` shows users only their own sockets. If it shows none and the address answers, the socket is another user's.
  return owners.length > 0 ? !owners.every((owner) => isTrusted(owner, uid)) : await system.reach(url);
}

const TABLES = ["/proc/net/tcp", "/proc/net/tcp6"];
const LISTENING = "0A";
const ANY_V4 = "00000000",
  ANY_V6 = "0".repeat(32),
  LOOPBACK_V6 = ["00000000000000000000000001000000", `${"0".repeat(31)}1`];

/** Returns the rows of a port in the tables of the kernel, or `null` where the system does not tell. */
async function rowsOf({ read, run }: PortSystem, hexPort: string): Promise<string | null> {
  const texts = (await Promise.all(TABLES.map(read))).filter((text) => text !== null);
  // Deno lets only a process with every permission read /proc. Another process may run a program that reads it.
  if (texts.length === 0) return await run("grep", ["-hs", `:${hexPort} [0-9A-F]*:0000 ${LISTENING} `, ...TABLES]);
  return texts.flatMap((text) => text.split("\n")).filter((row) => row.includes(`:${hexPort} `)).join("\n");
}

/** Decides from the rows of `/proc/net/tcp` and `/proc/net/tcp6`, without further reads. */
export function otherListens(rows: string, hostname: string, hexPort: string, uid: number): boolean {
  const owners = new Map<string, number[]>();
  for (const row of rows.split("\n")) {
    const [, local = "", , state, , , , owner] = row.trim().split(/\s+/);
    const [address = "", port] = local.split(":");
    if (port !== hexPort || state !== LISTENING) continue;
    owners.set(address, [...owners.get(address) ?? [], Number(owner)]);
  }
  const isOther = (classes: readonly (readonly string[])[]) => {
    // The kernel prefers the socket with the most specific address, so only that one counts.
    for (const addresses of classes) {
      const found = addresses.flatMap((address) => owners.get(address) ?? []);
      if (found.length > 0) return !found.every((owner) => isTrusted(owner, uid));
    }
    return false;
  };
  const isOtherV6 = () => isOther([LOOPBACK_V6, [ANY_V6]]);
  if (hostname === "[::1]") return isOtherV6();
  const v4 = hexOf(hostname === "localhost" ? "127.0.0.1" : hostname);
  const mapped = v4.map((hex) => `${"0".repeat(16)}FFFF0000${hex}`);
  const isOtherV4 = isOther([[...v4, ...mapped, ...v4.map((hex) => `${"0".repeat(20)}FFFF${hex}`)], [ANY_V4], [
    ANY_V6,
  ]]);
  return isOtherV4 || hostname === "localhost" && isOtherV6();
}

/** Returns the IPv4 address as the kernel writes it, for machines of both byte orders. */
function hexOf(address: string): string[] {
  const bytes = address.split(".").map((part) => Number(part).toString(16).toUpperCase().padStart(2, "0"));
  return [bytes.toReversed().join(""), bytes.join("")];
}

/** Root is trusted, because it can take any port and read any token anyway. */
function isTrusted(owner: number, uid: number): boolean {
  return owner === uid || owner === 0;
}
