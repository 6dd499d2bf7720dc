/** The README's lines for a second machine, typed by two people up to a processed message. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { eventually, ROOT, within } from "../support/process.ts";
import { type Person, START_MS } from "./machine_person.ts";

const README = Deno.readTextFileSync(`${ROOT}/README.md`);
const SECTION = README.slice(README.indexOf("## A second machine"), README.indexOf("## Two servers"));
const LINES = [...SECTION.matchAll(/^svc .*$/gm)].map(([line]) => line);

/** Returns the words of the README's line that begins with `start`, with values for its placeholders. */
export function wordsOf(start: string, values: Record<string, string>): string[] {
  const line = LINES.find((one) => one.startsWith(`svc ${start}`));
  assert(line, `The README has no line for svc ${start}`);
  const filled = Object.entries(values).reduce((text, [name, value]) => text.replace(`<${name}>`, value), line);
  return filled.slice("svc ".length).replaceAll('"', "").split(" ");
}

interface Lines {
  /** Words that start the server. */
  serve: string[];
  /** Options that the section adds to `admin bootstrap` and `join`; no later command needs them. */
  added: string[];
}

/** Types the lines of both people, up to a processed message. */
export async function secondMachine(ada: Person, bob: Person, { serve, added }: Lines): Promise<void> {
  await using server = ada.start([...serve, "--store", `${ada.folder}/svc.kv`]);
  await within(START_MS, "the server listens", server.stdout.match(/^listening on /m));
  const [, bootstrap = ""] = await within(START_MS, "the command", server.stdout.match(/svc (admin bootstrap .*)\n/));
  await ada.svc(...bootstrap.split(" "), "--agent", "alpha", ...added);
  const { joinLink } = JSON.parse(await ada.svc(...wordsOf("invite create", {}), "--json"));
  await using alpha = await ada.connect(["connector", "start", "alpha", "--inbox"]);
  await using beta = await bob.connect([...wordsOf("join", { link: joinLink }), ...added]);
  await ada.svc("send", "beta", "from one machine to the other");
  await within(START_MS, "the message", beta.stdout.match(/"event":"received"/));
  assertStringIncludes(await bob.svc("inbox", "--take"), "from one machine to the other");
  const [{ requestId }] = JSON.parse(await ada.svc("sent", "--json")).messages;
  // The receipt takes a moment to the server.
  await eventually(START_MS, "the receipt", async () => {
    const { state } = JSON.parse(await ada.svc("sent", requestId, "--json"));
    return state === "processed" ? true : undefined;
  });
  for (const connector of [alpha, beta]) assertEquals((await connector.end()).code, 0);
  assertEquals((await server.end()).code, 0);
}
