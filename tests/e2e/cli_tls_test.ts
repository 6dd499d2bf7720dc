/**
 * TLS with a private authority: refused certificates are reported with the reason, and `--ca` and DENO_CERT add the
 * authority.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { attempt, attemptHere, RunningConnector, svc, svcHere } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { HAS_OPENSSL, PrivateAuthority, TlsFront } from "../support/private_authority.ts";
import { bootstrap, ChildProcess, freePort, SOON_MS, startServerHere, tempFolder, within } from "../support/process.ts";
import { longTest } from "../support/trials.ts";

const program = await bundledProgram();

/** A server behind TLS, its authority and a folder for `svc`. */
class SecureService implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  private constructor(readonly authority: PrivateAuthority, readonly dir: string, readonly url: string) {}
  apiKey = "";

  static async open(): Promise<SecureService> {
    const stack = new AsyncDisposableStack();
    const folder = stack.use(await tempFolder());
    const authority = await PrivateAuthority.make(folder.path);
    const port = freePort();
    const front = stack.use(new TlsFront(await authority.issue("good", "DNS:localhost"), () => port));
    const url = `https://localhost:${front.port}`;
    const service = new SecureService(authority, `${folder.path}/svc`, url);
    service.#stack.use(stack);
    const env = { PORT: String(port), REGISTRY_URL: url, PROXY_URL: url };
    const server = service.#stack.use(await startServerHere({ folder: folder.path, env }));
    service.apiKey = await bootstrap({ registryUrl: server.address, proxyUrl: server.address });
    return service;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

Deno.test({
  name: "a command and a connector work behind a private authority when --ca or DENO_CERT names it",
  ignore: !HAS_OPENSSL,
  async fn() {
    await using service = await SecureService.open();
    const { dir, url, authority } = service;
    const init = ["config", "init", "--registry-url", url];
    const refused = await attempt(dir, init, {}, program);
    assertEquals([refused.code, refused.error?.code], [5, "CLI_TLS_REFUSED"]);
    assertStringIncludes(refused.error?.message ?? "", "an authority that this machine does not know");
    assertStringIncludes(refused.error?.message ?? "", "--ca <file>");
    await svc(dir, init, { DENO_CERT: authority.path }, program);
    await svcHere(dir, init, { SVC_CA: authority.path });
    await svcHere(dir, [...init, "--ca", authority.path]);
    const env = { SVC_API_KEY: service.apiKey, SVC_CA: authority.path };
    await svcHere(dir, ["agent", "create", "b"], env);
    const runtime = ["--runtime-base-url", "http://127.0.0.1:9"];
    for (const [args, env] of [[["--ca", authority.path], {}], [[], { DENO_CERT: authority.path }]] as const) {
      await using connector = await RunningConnector.start(dir, "b", [...runtime, ...args], { env, program });
      const { peers } = await connector.json("GET", "/v1/pair/peers");
      assertEquals(peers, []);
    }
  },
});

longTest({
  name: "a refused certificate is reported with its reason by commands and by the connector",
  ignore: !HAS_OPENSSL,
  async fn() {
    await using service = await SecureService.open();
    const { dir, authority } = service;
    const ca = ["--ca", authority.path];
    await svcHere(dir, ["config", "init", "--registry-url", service.url, ...ca]);
    await svcHere(dir, ["agent", "create", "b", ...ca], { SVC_API_KEY: service.apiKey });
    const cases = [
      ["name", "DNS:other.example", 2, "issued for another name"],
      ["old", "DNS:localhost", -1, "expired, or this machine's clock is wrong"],
    ] as const;
    for (const [name, altNames, days, why] of cases) {
      await using front = new TlsFront(await authority.issue(name, altNames, days), () => 9);
      const url = `https://localhost:${front.port}`;
      const refused = await attemptHere(dir, ["config", "init", "--registry-url", url, ...ca]);
      assertEquals([refused.code, refused.error?.code], [5, "CLI_TLS_REFUSED"]);
      assertStringIncludes(refused.error?.message ?? "", why);
      const line = ["connector", "start", "b", "--config-dir", dir, ...ca, "--proxy-ws-url", url.replace("http", "ws")];
      await using child = new ChildProcess([...program.args, ...line], {}, program.command);
      const [, event = ""] = await within(
        SOON_MS,
        "the refusal",
        child.stdout.match(/(\{.*"event":"unreachable".*\})/),
      );
      assertStringIncludes(JSON.parse(event).why, why);
      await child.end("SIGTERM");
    }
    const plain = service.url.replace("https", "http");
    const spoken = await attemptHere(dir, ["config", "init", "--registry-url", plain]);
    assertEquals([spoken.code, spoken.error?.code], [5, "CLI_UNREACHABLE"]);
    assertStringIncludes(spoken.error?.message ?? "", "if it speaks TLS, use https");
  },
});

Deno.test("a file for --ca without a usable certificate is a usage error before any request", async () => {
  await using folder = await tempFolder();
  const path = `${folder.path}/ca.pem`;
  const begin = "-----BEGIN CERTIFICATE-----", end = "-----END CERTIFICATE-----";
  const files = [null, "", "hello", `${begin}\nAAAA\n${end}\n`, `${begin}\n${"A".repeat(1024 * 1024)}\n${end}\n`];
  for (const text of files) {
    if (text !== null) await Deno.writeTextFile(path, text);
    const init = ["config", "init", "--registry-url", "https://registry.invalid", "--ca", path];
    const { code, error } = await attemptHere(folder.path, init);
    assertEquals([code, error?.code], [2, "CLI_USAGE"], text?.slice(0, 40));
    assert(error?.message.includes(path), error?.message);
  }
});
