/**
 * The README's lines for a second machine, typed on two machines: a server, and a laptop behind NAT, with plain HTTP in
 * a local network and with TLS of a private authority.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { HAS_OPENSSL } from "../support/private_authority.ts";
import { eventually, freePort, ROOT, tempFolder, within } from "../support/process.ts";
import { TwoMachines } from "../support/two_machines.ts";
import { Person, START_MS, startFront } from "./machine_person.ts";

const README = Deno.readTextFileSync(`${ROOT}/README.md`);
const SECTION = README.slice(README.indexOf("## A second machine"), README.indexOf("## Two servers"));
const LINES = [...SECTION.matchAll(/^svc .*$/gm)].map(([line]) => line);

/** Returns the words of the README's line that begins with `start`, with values for its placeholders. */
function wordsOf(start: string, values: Record<string, string>): string[] {
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
async function story(ada: Person, bob: Person, { serve, added }: Lines): Promise<void> {
  await using server = ada.start([...serve, "--store", `${ada.folder}/svc.kv`]);
  await within(START_MS, "the server listens", server.stdout.match(/^listening on /m));
  const [, bootstrap = ""] = await within(START_MS, "the command", server.stdout.match(/svc (admin bootstrap .*)\n/));
  await ada.svc(...bootstrap.split(" "), ...added);
  const { joinLink } = JSON.parse(await ada.svc(...wordsOf("invite create", {}), "--json"));
  await bob.svc(...wordsOf("join", { link: joinLink }), ...added);
  await ada.svc("agent", "create", "alpha");
  await using alpha = await ada.connect(["connector", "start", "alpha", "--inbox"]);
  await using beta = await bob.connect(wordsOf("connector start", {}));
  const { ticket = "" } = await ada.call("alpha", "/v1/pair/start", {});
  await bob.call("beta", "/v1/pair/confirm", { ticket });
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

Deno.test("two machines in a local network get from the lines of the README to a receipt", async () => {
  await using machines = await TwoMachines.open();
  await using folder = await tempFolder();
  const { server, laptop } = machines;
  // The port of the README is free on a machine of its own.
  const port = machines.kind === "one machine" ? String(freePort()) : "8787";
  const words = wordsOf("serve --host", { address: server.address }).map((word) => word.replace(":8787", `:${port}`));
  await story(new Person(server, `${folder.path}/ada`), new Person(laptop, `${folder.path}/bob`), {
    serve: [...words, "--port", port],
    added: ["--allow-insecure"],
  });
});

Deno.test({
  name: "two machines with a front for TLS of a private authority get to a receipt",
  ignore: !HAS_OPENSSL,
  async fn() {
    await using machines = await TwoMachines.open();
    await using folder = await tempFolder();
    const { server, laptop } = machines;
    const [port, behind] = [String(freePort()), String(freePort())];
    const authority = `${folder.path}/authority`;
    const [ada, bob] = [new Person(server, `${folder.path}/ada`), new Person(laptop, `${folder.path}/bob`)];
    await using _ = await startFront(ada, authority, port, behind);
    const serve = [...wordsOf("serve --behind-proxy", { name: `${server.address}:${port}` }), "--port", behind];
    await story(ada, bob, { serve, added: ["--ca", `${authority}/ca.pem`] });
  },
});
