/** Copies of the source without one protection, which show that the chaos suite finds its loss. */
import { ROOT } from "../../support/process.ts";

/** A protection that a copy lacks. */
export type Broken = keyof typeof REMOVALS;

interface Removal {
  file: string;
  from: string;
  to: string;
}

const REMOVALS = {
  /** A used nonce is accepted again. */
  nonce: [{
    file: "proxy/message/sender.ts",
    from: "return now < (this.#ends.get(name) ?? 0);",
    to: "return now < (this.#ends.get(name) ?? 0) - 1e15;",
  }],
  /** An instance delivers to its sockets after the agent has moved. */
  fence: [{
    file: "proxy/relay/presence.ts",
    from: `!holder || holder === this.instance ? "hold" : { refuse: "moved" }`,
    to: `!holder || holder.length >= 0 ? "hold" : { refuse: "moved" }`,
  }],
  /** A commit without an answer is repeated without reading its mark. */
  retry: [{
    file: "shared/server/store/group_commit.ts",
    from: "if (doubts.size === 0) return batch;",
    to: "if (doubts.size >= 0) return batch;",
  }],
} satisfies Record<string, readonly Removal[]>;

/** Folders and files that the server consists of. */
const SOURCE = ["shared", "registry", "proxy", "deploy.ts", "deno.json", "deno.lock"];

/** Writes a copy without a protection. Returns how to run it. */
export async function breakBuild(what: Broken): Promise<AsyncDisposable & { entry: string[] }> {
  const folder = await Deno.makeTempDir({ prefix: "svc_broken_" });
  const { success } = await new Deno.Command("cp", { args: ["-r", ...SOURCE, folder], cwd: ROOT }).output();
  if (!success) throw new Error("The source cannot be copied");
  for (const { file, from, to } of REMOVALS[what]) {
    const text = await Deno.readTextFile(`${folder}/${file}`);
    if (!text.includes(from)) throw new Error(`${file} no longer holds what the broken build removes`);
    await Deno.writeTextFile(`${folder}/${file}`, text.replace(from, to));
  }
  return {
    entry: ["--config", `${folder}/deno.json`, `${folder}/deploy.ts`],
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}
