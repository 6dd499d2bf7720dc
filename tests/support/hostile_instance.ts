/**
 * A process that reaches the port between instances and cannot read the store (D-370). Started with the path of an
 * `InstanceJob`: it prints `started`, goes on until SIGTERM, and prints what the port answered. `burn` makes no connection: it is
 * the control, which only uses as much CPU as an attack did.
 */
import { rawRequest, UPGRADE } from "./raw_http.ts";

export interface InstanceJob {
  /** `host:port`. */
  at: string;
  /** Path of the request that once opened a link, as someone who listens on the network has it. */
  used: string;
  attack: InstanceAttack;
  /** Share of one core that `burn` uses. */
  share: number;
}

export const INSTANCE_ATTACKS = ["rubbish", "handshakes", "replays", "oversized", "connections"] as const;
export type InstanceAttack = (typeof INSTANCE_ATTACKS)[number] | "burn";

const CONNECTIONS = 1_000;
const AT_ONCE = 8;
/** Between two tries of one of them: without a pause the attack is only a load of the machine. */
const PAUSE_MS = 20;
/** One frame of 64 MiB, of which this process sends what is taken. */
const HUGE_FRAME = Uint8Array.of(0x82, 0xff, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0);
const MEGABYTE = new Uint8Array(2 ** 20).fill(120);

const answers = new Map<string, number>();
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Sends parts on a new connection, and counts the status of the answer. */
async function say(at: string, ...parts: (string | Uint8Array)[]): Promise<string> {
  const [hostname = "", port] = at.split(":");
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const head = new Uint8Array(4_096);
  const reading = connection.read(head).catch(() => null);
  for (const part of parts) {
    const bytes = typeof part === "string" ? new TextEncoder().encode(part) : part;
    for (let sent = 0; sent < bytes.length;) {
      const more = await connection.write(bytes.subarray(sent)).catch(() => null);
      if (more === null) break;
      sent += more;
    }
  }
  const size = await Promise.race([reading, pause(2_000).then(() => null)]);
  const text = new TextDecoder().decode(head.subarray(0, size ?? 0));
  const answer = text.match(/^HTTP\/1\.1 (\d+)/)?.[1] ?? "no answer";
  answers.set(answer, (answers.get(answer) ?? 0) + 1);
  return text;
}

const request = (at: string, method: string, path: string, ...more: (readonly [string, string])[]) =>
  rawRequest(method, path, [["Host", at], ...more]);

/** What each attack does again and again, eight at a time. */
const ATTACKS: Readonly<Record<(typeof INSTANCE_ATTACKS)[number], (job: InstanceJob, n: number) => Promise<unknown>>> =
  {
    rubbish: ({ at }, n) =>
      n % 2 === 0
        ? say(at, crypto.getRandomValues(new Uint8Array(1 + n % 4_096)))
        : say(at, request(at, "GET", `/${"%00?&=".repeat(n % 100)}`)),
    async handshakes({ at }) {
      const text = await say(at, request(at, "GET", "/challenge"));
      const challenge = text.split("\r\n\r\n")[1] ?? "";
      const query = new URLSearchParams({
        from: "01KHYQ5H00AAAAAAAAAAAAAAAA",
        challenge,
        nonce: "n",
        proof: "p".repeat(43),
      });
      await say(at, request(at, "GET", `/link?${query}`, ...UPGRADE));
    },
    replays: ({ at, used }) => say(at, request(at, "GET", used, ...UPGRADE)),
    oversized: ({ at, used }, n) =>
      [
        () => say(at, request(at, "GET", used, ...UPGRADE), HUGE_FRAME, ...Array.from({ length: 8 }, () => MEGABYTE)),
        () =>
          say(at, request(at, "POST", "/challenge", ["Content-Length", String(2 ** 30)]), ...Array(8).fill(MEGABYTE)),
        () => say(at, `GET /challenge HTTP/1.1\r\nHost: ${at}\r\nX: `, ...Array(8).fill(MEGABYTE)),
      ][n % 3]?.() ?? Promise.resolve(),
    connections: async () => await pause(1_000),
  };

async function burn(share: number): Promise<never> {
  while (true) {
    const began = performance.now();
    while (performance.now() - began < 20 * share) await crypto.subtle.digest("SHA-256", MEGABYTE.subarray(0, 1_024));
    await pause(20 * (1 - Math.min(share, 1)));
  }
}

if (import.meta.main) {
  const job: InstanceJob = JSON.parse(await Deno.readTextFile(Deno.args[0] ?? ""));
  Deno.addSignalListener("SIGTERM", () => {
    console.log(JSON.stringify(Object.fromEntries(answers)));
    Deno.exit(0);
  });
  const { attack } = job, [hostname = "", port] = job.at.split(":");
  const held: Deno.Conn[] = [];
  for (let i = 0; attack === "connections" && i < CONNECTIONS; i++) {
    const connection = await Deno.connect({ hostname, port: Number(port) });
    // Half of a head, and never the rest.
    await connection.write(new TextEncoder().encode("GET /challenge HTTP/1.1\r\nHo"));
    held.push(connection);
  }
  console.log("started");
  if (attack === "burn") await burn(job.share);
  else {
    let n = 0;
    await Promise.all(Array.from({ length: AT_ONCE }, async () => {
      while (true) {
        await ATTACKS[attack](job, n++).catch(() => {});
        await pause(PAUSE_MS);
      }
    }));
  }
}
