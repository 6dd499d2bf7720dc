/**
 * Two machines for a test: a server, and a laptop behind NAT. They are network namespaces with a router between them;
 * where the system refuses namespaces, both are this machine, and one line says so.
 */
import type { Program } from "../cli/program.ts";
import { isInstalled } from "./installed.ts";

/** A machine that runs programs. */
export interface Machine {
  /** The address that the other machine uses. */
  address: string;
  /** Returns the program as it runs on this machine. */
  program(program: Program): Program;
}

async function run(...[command = "", ...args]: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args }).output();
  if (!success) throw new Error(`${[command, ...args].join(" ")}: ${new TextDecoder().decode(stderr)}`);
}

/** Addresses in the namespaces; no other host sees them. */
export const SERVER = "10.77.1.1", LAPTOP = "10.77.2.1";
/** A second address of the laptop, for a server beside its own. */
export const NEIGHBOUR = "10.77.2.3";
const TO_SERVER = "10.77.1.254", TO_LAPTOP = "10.77.2.254";

/** Where `ip netns exec` finds the files of a namespace that take the place of those in /etc. */
const NETNS = "/etc/netns";

export class TwoMachines implements AsyncDisposable {
  private constructor(
    readonly server: Machine,
    readonly laptop: Machine,
    /** What stands for the two machines. */
    readonly kind: "namespaces with NAT" | "namespaces without NAT" | "one machine",
    readonly namespaces: readonly string[],
  ) {}

  /**
   * @param wantsNat the laptop is behind NAT, unless it is false: then each reaches the other
   * @param hosts lines of the hosts file of both
   */
  static async open({ wantsNat = true, hosts = "" } = {}): Promise<TwoMachines> {
    const id = crypto.randomUUID().slice(0, 6);
    const names = ["server", "laptop", "router"].map((name) => `svc-${id}-${name}`);
    const [server = "", laptop = "", router = ""] = names;
    const made: string[] = [];
    try {
      for (const name of names) {
        await run("ip", "netns", "add", name);
        made.push(name);
        await run("ip", "-n", name, "link", "set", "lo", "up");
      }
      for (
        const [machine, address, gateway, link] of [
          [server, SERVER, TO_SERVER, "wan"],
          [laptop, LAPTOP, TO_LAPTOP, "lan"],
        ] as const
      ) {
        const far = ["peer", "name", link, "netns", router];
        await run("ip", "link", "add", "eth0", "netns", machine, "type", "veth", ...far);
        await run("ip", "-n", machine, "addr", "add", `${address}/24`, "dev", "eth0");
        await run("ip", "-n", machine, "link", "set", "eth0", "up");
        await run("ip", "-n", router, "addr", "add", `${gateway}/24`, "dev", link);
        await run("ip", "-n", router, "link", "set", link, "up");
      }
      await run("ip", "-n", laptop, "addr", "add", `${NEIGHBOUR}/24`, "dev", "eth0");
      await run("ip", "-n", laptop, "route", "add", "default", "via", TO_LAPTOP);
      await run("ip", "netns", "exec", router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward");
      for (const name of hosts === "" ? [] : made) {
        await Deno.mkdir(`${NETNS}/${name}`, { recursive: true });
        await Deno.writeTextFile(`${NETNS}/${name}/hosts`, `127.0.0.1 localhost\n${hosts}\n`);
      }
      const hasNat = wantsNat && await isInstalled("nft");
      // Behind NAT the server has no route to the laptop.
      if (hasNat) await translateAddresses(router);
      else await run("ip", "-n", server, "route", "add", "10.77.2.0/24", "via", TO_SERVER);
      const kind = hasNat ? "namespaces with NAT" : "namespaces without NAT";
      return new TwoMachines(inNamespace(server, SERVER), inNamespace(laptop, LAPTOP), kind, made);
    } catch (error) {
      for (const name of made) await run("ip", "netns", "del", name);
      console.log(
        `Two machines are two loopback addresses here: ${error instanceof Error ? error.message.trim() : error}`,
      );
      const here = (address: string): Machine => ({ address, program: (program) => program });
      return new TwoMachines(here("127.0.0.1"), here("127.0.0.2"), "one machine", []);
    }
  }

  /** Pulls the cable of the laptop, or plugs it in again: its address and routes stay. False on one machine. */
  async setLink(isUp: boolean): Promise<boolean> {
    const router = this.namespaces.at(-1);
    if (router === undefined) return false;
    await run("ip", "-n", router, "link", "set", "lan", isUp ? "up" : "down");
    return true;
  }

  /** Ends nothing: the programs of a namespace must have ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const name of this.namespaces) {
      await run("ip", "netns", "del", name);
      await Deno.remove(`${NETNS}/${name}`, { recursive: true }).catch(() => {});
    }
  }
}

function inNamespace(name: string, address: string): Machine {
  return {
    address,
    // `ip netns exec` becomes the program, so a signal to it ends the program.
    program: ({ name: title, command, args }) => ({
      name: title,
      command: "ip",
      args: ["netns", "exec", name, command, ...args],
    }),
  };
}

async function translateAddresses(router: string): Promise<void> {
  const nft = (...rule: string[]) => run("ip", "netns", "exec", router, "nft", ...rule);
  await nft("add", "table", "ip", "nat");
  await nft("add", "chain", "ip", "nat", "out", "{ type nat hook postrouting priority 100 ; }");
  await nft("add", "rule", "ip", "nat", "out", "oifname", "wan", "masquerade");
}
