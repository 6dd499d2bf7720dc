/** What the machine of the operator holds of a message between peers of a ticket: nothing that it can read (D-152). */
import { assert, assertEquals } from "@std/assert";
import { createAgents, RunningConnector } from "../cli/connector/people.ts";
import { eventually, Service, tempFolder } from "../support/process.ts";

/** Every byte of the files below a folder, as Latin-1, so that any encoding of a file is searched. */
async function bytesBelow(folder: string): Promise<string> {
  const texts: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory) texts.push(await bytesBelow(path));
    else texts.push(new TextDecoder("latin1").decode(await Deno.readFile(path).catch(() => new Uint8Array())));
  }
  return texts.join("\n");
}

Deno.test("store, journal and log of a server hold no text of a message between peers of a ticket, sent or queued", async () => {
  await using more = new AsyncDisposableStack();
  const service = more.use(await Service.open({ ACCESS_LOG: "on" })), home = more.use(await tempFolder());
  await createAgents(home.path, service, ["alpha", "beta"]);
  const start = async (name: string) => more.use(await RunningConnector.start(home.path, name, ["--inbox"]));
  const alpha = await start("alpha"), beta = await start("beta");
  const { ticket } = await alpha.json("POST", "/v1/pair/start", {});
  await beta.json("POST", "/v1/pair/confirm", { ticket });
  await eventually(
    60_000,
    "alpha has pinned beta",
    () => alpha.events.some(({ event }) => event === "paired") || undefined,
  );
  const word = "eight-thousand-four-hundred", known = "a-request-id-that-is-in-the-store";
  const send = async (body: object) => {
    const answer = await alpha.call("POST", "/v1/outbound", { to: "beta", text: `The port is ${word}`, ...body });
    assertEquals([answer.status, answer.headers.get("x-svc-sealed")], [202, "1"]);
    return await answer.json();
  };
  assertEquals((await send({ requestId: known })).delivered, true);
  const { messages: [message] } = await beta.json("GET", "/v1/inbox");
  assertEquals([message.text, message.verified], [`The port is ${word}`, "end-to-end"]);
  await beta.child.end("SIGTERM");
  const queued = { requestId: `${known}-2`, prefer: "respond-async" };
  await eventually(60_000, "the message is queued", async () => (await send(queued)).queued || undefined);
  const own = await bytesBelow(home.path);
  assert(own.includes(word), "the search finds what is there: the connectors keep the text on their own machine");
  const all = await bytesBelow(service.folders[0]!.path) + service.server.printed;
  assert(all.includes(known), "the search reads the store");
  assertEquals(all.includes(word), false);
});
