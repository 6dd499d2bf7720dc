/** A person who types commands at one of two machines. */
import { assertEquals } from "@std/assert";
import { bundledProgram, bundledServer } from "../cli/program.ts";
import { ChildProcess, within } from "../support/process.ts";
import type { Machine } from "../support/two_machines.ts";

/** Longest wait for a program, milliseconds. */
export const START_MS = 60_000;

/** `svc` as a bundle, which starts in two thirds of the time of the sources. */
export const SVC = await bundledProgram();
const SERVER = await bundledServer();

export class Person {
  constructor(readonly machine: Machine, readonly folder: string, readonly env: Record<string, string> = {}) {}

  start(words: readonly string[], program = words[0] === "serve" ? SERVER : SVC): ChildProcess {
    const { command, args } = this.machine.program(program);
    return new ChildProcess([...args, ...words], { SVC_CONFIG_DIR: this.folder, ...this.env }, command);
  }

  async svc(...words: string[]): Promise<string> {
    await using child = this.start(words);
    const { code } = await within(START_MS, `svc ${words.join(" ")}`, child.status);
    assertEquals(code, 0, `svc ${words.join(" ")}\n${child.printed}`);
    return child.stdout.text;
  }

  /** Starts the connector of an agent and waits until it is connected. */
  async connect(words: readonly string[]): Promise<ChildProcess> {
    const child = this.start(words);
    await within(START_MS, `svc ${words.join(" ")}`, child.stdout.match(/"event":"connected"| · \S*online/));
    return child;
  }

  /** Calls the local API of the agent's connector from a program on this machine. */
  async call(agent: string, path: string, body?: unknown): Promise<Record<string, string>> {
    const file = `${this.folder}/agents/${agent}/connector.json`;
    const { url, token } = JSON.parse(Deno.readTextFileSync(file));
    const init = {
      method: body === undefined ? "GET" : "POST",
      headers: { Authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    };
    const code = `console.log(await (await fetch(${JSON.stringify(url + path)}, ${JSON.stringify(init)})).text())`;
    await using child = this.start([code], { name: "fetch", command: Deno.execPath(), args: ["eval", "--quiet"] });
    await within(START_MS, path, child.status);
    return JSON.parse(child.stdout.text);
  }
}

/** A front for TLS on a machine, with a certificate of the authority in a folder for its address or `name`. */
export async function startFront(
  person: Person,
  authority: string,
  port: string,
  behind: string,
  name?: string,
): Promise<ChildProcess> {
  await Deno.mkdir(authority, { recursive: true });
  const words = [authority, person.machine.address, port, behind, ...name === undefined ? [] : [name]];
  const front = person.start(words, {
    name: "front",
    command: Deno.execPath(),
    args: ["run", "--quiet", "-A", "tests/support/tls_front_program.ts"],
  });
  await within(START_MS, "the front", front.stdout.match(/ready/));
  return front;
}
