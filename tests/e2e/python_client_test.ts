/** A client in another language, written from docs/protocol.md alone, sends a message and receives it. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { Service, within } from "../support/process.ts";

const CLIENT = new URL("../../docs/examples/client.py", import.meta.url);

const HAS_PYTHON = await new Deno.Command("python3", { args: ["-c", "import cryptography"], stderr: "null" }).output()
  .then(({ success }) => success, () => false);
if (!HAS_PYTHON) console.log("python client: SKIPPED, no python3 with the package cryptography");

Deno.test({
  name: "a client in Python, written from docs/protocol.md, sends a message and receives it",
  ignore: !HAS_PYTHON,
  async fn() {
    await using service = await Service.open();
    const { url, apiKey } = service;
    const child = new Deno.Command("python3", {
      args: [CLIENT.pathname, url, apiKey],
      stdout: "piped",
      stderr: "piped",
    });
    const { code, stdout, stderr } = await within(60_000, "the Python client ends", child.output());
    const text = new TextDecoder().decode(stdout);
    assertEquals([code, new TextDecoder().decode(stderr)], [0, ""], text);
    const { from, alpha, payload, answer } = JSON.parse(text);
    assertEquals([from, answer.accepted, answer.delivered], [alpha, true, true]);
    assertStringIncludes(payload.message, "Which port?");
  },
});

Deno.test("the Python client has under 100 lines and needs one package", async () => {
  const text = await Deno.readTextFile(CLIENT);
  assertEquals(text.split("\n").length <= 100, true);
  const packages = [...text.matchAll(/^(?:from|import) ([a-z0-9]+)/gm)].map(([, name]) => name);
  assertEquals([...new Set(packages)], ["base64", "cryptography"]);
});
