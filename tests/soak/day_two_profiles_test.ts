/**
 * Two accounts of one person: a second server with a private authority as a profile needs no option after `join`, and
 * `svc uninstall` removes what both profiles wrote. As a person types it. Needs tmux and openssl.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { denoDir } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { RegistryClient } from "../support/agent_client.ts";
import { HAS_OPENSSL, PrivateAuthority, TlsFront } from "../support/private_authority.ts";
import { bootstrap, deps, freePort, Service, startServer, tempFolder } from "../support/process.ts";
import { HAS_TMUX } from "../support/tmux_terminal.ts";
import { Typist } from "../support/typist.ts";

const program = await bundledProgram();

/** What one account needs, beyond `join`. */
const COMMANDS = [
  "whoami",
  "agent list",
  "agent inspect alpha",
  "agent auth refresh alpha",
  "agent reissue alpha",
  "api-key list",
  "peers",
  "inbox",
  "sent",
  "status",
  "provider status",
];

Deno.test({
  name: "a second server with a private authority is a profile that needs no option, and uninstall covers both",
  ignore: !HAS_TMUX || !HAS_OPENSSL,
  async fn() {
    await using service = await Service.open();
    await using folder = await tempFolder();
    const authority = await PrivateAuthority.make(folder.path), port = freePort();
    await using front = new TlsFront(await authority.issue("work", "DNS:localhost"), () => port);
    const url = `https://localhost:${front.port}`;
    await Deno.mkdir(`${folder.path}/store`);
    await using work = await startServer({
      folder: `${folder.path}/store`,
      env: { PORT: `${port}`, REGISTRY_URL: url, PROXY_URL: url },
    });
    const linkOf = async (registryUrl: string, dialled: string, apiKey: string) => {
      const { invite } = await new RegistryClient(deps, dialled).createInvite(apiKey);
      return `'${registryUrl}/join#${invite.code}'`;
    };
    const place = { registryUrl: work.address, proxyUrl: work.address };
    const [home, office] = [
      await linkOf(service.url, service.url, service.apiKey),
      await linkOf(url, work.address, await bootstrap(place)),
    ];
    const dir = `${folder.path}/svc`, person = `${folder.path}/home`;
    await Deno.mkdir(`${person}/.cursor`, { recursive: true });
    await using ada = await Typist.open(program, {
      dir,
      env: { HOME: person, XDG_CONFIG_HOME: `${person}/.config`, DENO_DIR: denoDir() },
    });
    const says = async (line: string) => (await ada.run(line)).map((one) => one.trim()).join(" ");

    assertStringIncludes(await says(`svc join ${home} --display-name Ada --agent home`), "Ada has an account at");
    const refused = await says(`svc join ${office} --display-name Ada --agent alpha --profile work`);
    assertStringIncludes(refused, "--ca <file>");
    const join = `svc join ${office} --display-name Ada --agent alpha --profile work --ca ${authority.path}`;
    assertStringIncludes(await says(join), "Ada has an account at");
    for (const command of COMMANDS) {
      assertStringIncludes(await says(`svc ${command} --profile work >/dev/null && echo done`), "done", command);
    }
    await ada.type("clear; svc connector start --profile work");
    await ada.shown(/^alpha · online/);
    await ada.quit();
    assertStringIncludes(await says("svc whoami"), "Ada");

    for (const [name, profile] of [["home", ""], ["alpha", " --profile work"]]) {
      assertStringIncludes(await says(`svc mcp install ${name} --for cursor${profile} && echo done`), "done");
    }
    const entries = async () => {
      const text = await Deno.readTextFile(`${person}/.cursor/mcp.json`).catch(() => "{}");
      return Object.keys(JSON.parse(text).mcpServers ?? {});
    };
    assertEquals((await entries()).length, 2);
    assert((await says("svc uninstall --yes")).length > 0);
    assertEquals(await entries(), []);
    assertStringIncludes(await says("svc uninstall --print"), "There is nothing to remove.");
    assertStringIncludes(await says("svc whoami --profile work >/dev/null && echo done"), "done");
  },
});
