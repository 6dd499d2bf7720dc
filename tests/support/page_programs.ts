/** The programs of docs/agents.md, as a test runs them, and the request of docs/protocol.md. */
import { assert } from "@std/assert";
import { output } from "../cli/program.ts";
import { eventually, ROOT } from "./process.ts";

const END_MS = 60_000;
const TEXT = ["agents", "protocol"].map((name) => Deno.readTextFileSync(`${ROOT}/docs/${name}.md`)).join("\n");
/** The fenced blocks of both by the name behind their language. */
const BLOCKS = new Map(
  [...TEXT.matchAll(/^```\w+ (\S+)\n(.*?)^```$/gms)].map(([, name = "", text = ""]) => [name, text]),
);

export const HAS_PYTHON = await output("python3", ["--version"]).then(({ code }) => code === 0, () => false);

/** The text of a block. */
export function block(name: string): string {
  const text = BLOCKS.get(name);
  assert(text !== undefined, `no document has the block ${name}`);
  return text;
}

/** A program that ends with the test, with the processes that it has started. */
export function background(command: string, args: string[], env: Record<string, string>): AsyncDisposable {
  // A session of its own is a process group of its own.
  const options: Deno.CommandOptions = {
    args: [command, ...args],
    env,
    stdin: "null",
    stdout: "null",
    stderr: "inherit",
  };
  const child = new Deno.Command("setsid", options).spawn();
  return {
    async [Symbol.asyncDispose]() {
      const group = `-${child.pid}`;
      await output("kill", ["-TERM", "--", group]);
      await child.status;
      // A process that it has started may still write into the folder of the test.
      const isOver = async () => (await output("kill", ["-0", "--", group])).code !== 0 || undefined;
      await eventually(END_MS, "its processes have ended", isOver);
    },
  };
}

/** A program of the page that answers messages. */
export interface AnsweringProgram {
  name: string;
  ignore: boolean;
  /** Starts it for an agent, whose connector runs. `svc`: the command of svc as words of a shell. */
  start(place: { dir: string; svc: string; agent: string }): AsyncDisposable;
  /** Its answer to a text. */
  answer(asker: string, text: string): string;
}

export const ANSWERING: readonly AnsweringProgram[] = [
  {
    name: "answer.py",
    ignore: !HAS_PYTHON,
    start({ dir, agent }) {
      Deno.writeTextFileSync(`${dir}/answer.py`, block("answer.py"));
      return background("python3", [`${dir}/answer.py`, agent], { SVC_CONFIG_DIR: dir });
    },
    answer: (_, text) => `${text.length} characters`,
  },
  {
    name: "answer.sh",
    ignore: false,
    start({ dir, svc, agent }) {
      const lines = [`svc() { ${svc} "$@"; }`, ...block("answer.sh").split("\n").slice(1)];
      const text = lines.join("\n").replaceAll("--agent beta", `--agent ${agent}`);
      return background("sh", ["-c", text], { SVC_CONFIG_DIR: dir });
    },
    answer: () => new Date().toISOString().slice(0, 10),
  },
  {
    name: "agent.mjs",
    ignore: false,
    start({ dir, agent }) {
      // The page's program also asks one question, and ends after its answer.
      const [answering = ""] = block("agent.mjs").replace('name: "alpha"', `name: "${agent}"`).split("const reply");
      Deno.writeTextFileSync(`${dir}/answering.mjs`, answering);
      const args = ["run", "-A", "--no-prompt", "--config", `${ROOT}/deno.json`, `${dir}/answering.mjs`];
      return background(Deno.execPath(), args, { SVC_CONFIG_DIR: dir });
    },
    answer: (asker, text) => `Hello ${asker}, you said: ${text}`,
  },
];
