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

Deno.test({
  name: "a reader in Python opens the sealed body of the vectors, and that of RFC 9180 A.1.1",
  ignore: !HAS_PYTHON,
  async fn() {
    const program = new URL("../../docs/examples/open_sealed.py", import.meta.url).pathname;
    const vectors = await Deno.readTextFile(new URL("../vectors/seal.json", import.meta.url));
    const child = new Deno.Command("python3", { args: [program], stdin: "piped", stdout: "piped", stderr: "piped" })
      .spawn();
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(vectors));
    await writer.close();
    const { code, stdout, stderr } = await within(60_000, "the Python reader ends", child.output());
    const payloads = (JSON.parse(vectors) as { valid: { payload: string }[] }).valid.map(({ payload }) => payload);
    assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
    assertEquals(new TextDecoder().decode(stdout).trimEnd().split("\n"), [
      ...payloads,
      "Beauty is truth, truth beauty",
    ]);
  },
});

Deno.test("the Python client has under 100 lines and needs one package", async () => {
  const text = await Deno.readTextFile(CLIENT);
  assertEquals(text.split("\n").length <= 100, true);
  const packages = [...text.matchAll(/^(?:from|import) ([a-z0-9]+)/gm)].map(([, name]) => name);
  assertEquals([...new Set(packages)], ["base64", "cryptography"]);
});
