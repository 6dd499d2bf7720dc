/**
 * `svc connector service …` as a program. No system service is changed: `systemctl` and related programs are stand-ins
 * on the PATH that record their arguments and run the unit's command as systemd would.
 */
import { relative } from "node:path";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  attempt,
  attemptHere,
  clientFromFiles,
  createAgents,
  denoDir,
  Listener,
  svc,
  svcHere,
} from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { HAS_OPENSSL, PrivateAuthority } from "../support/private_authority.ts";
import { eventually, freePort, ROOT, Service, SOON_MS } from "../support/process.ts";
import { IS_LONG } from "../support/trials.ts";

const program = await bundledProgram();

/** The stand-in for systemd's programs: `$RECORD` holds their arguments, `$PID` the process they started. */
const STAND_INS = {
  systemctl: `#!/bin/sh
echo "systemctl $*" >> "$RECORD"
stop() { [ -f "$PID" ] && kill "$(cat "$PID")" 2>/dev/null; rm -f "$PID"; }
case "$2" in
  restart)
    stop
    eval "exec $(sed -n 's/^ExecStart=://p' "$XDG_CONFIG_HOME/systemd/user/$3" | sed 's/%%/%/g')" >/dev/null 2>&1 </dev/null &
    echo $! > "$PID" ;;
  disable) stop ;;
esac
`,
  loginctl: '#!/bin/sh\necho "loginctl $*" >> "$RECORD"\necho Linger=no\n',
  journalctl: '#!/bin/sh\necho "journalctl $*" >> "$RECORD"\necho a line of the journal\n',
};

Deno.test("a service installs, runs, shows its logs and uninstalls, each of them twice", async (t) => {
  await using service = await Service.here();
  await using runtime = new Listener();
  // systemd quotes what a shell quotes in the same way: a space, a percent sign and a semicolon.
  const [dir, home] = [`${service.home}/s v%c;`, `${service.home}/home`];
  const bin = `${service.home}/bin`;
  for (const path of [bin, home, `${service.home}/empty`]) await Deno.mkdir(path);
  for (const [name, text] of Object.entries(STAND_INS)) {
    await Deno.writeTextFile(`${bin}/${name}`, text, { mode: 0o755 });
  }
  const env = {
    HOME: home,
    XDG_CONFIG_HOME: `${home}/.config`,
    DENO_DIR: denoDir(),
    RECORD: `${service.home}/record`,
    PID: `${service.home}/pid`,
    SVC_HOOK_TOKEN: "hook-token-of-this-test",
  };
  const without = { ...env, PATH: `${service.home}/empty` };
  const within = { ...env, PATH: `${bin}:${Deno.env.get("PATH")}` };
  await createAgents(dir, service, ["beta"]);
  const unit = `${env.XDG_CONFIG_HOME}/systemd/user/svc-connector-beta.service`;
  const install = [
    "connector",
    "service",
    "install",
    "beta",
    "--platform",
    "systemd",
    "--runtime-base-url",
    runtime.url,
  ];
  const uninstall = ["connector", "service", "uninstall", "beta", "--platform", "systemd"];
  const isThere = (path: string) => Deno.stat(path).then(() => true, () => false);

  for (const [system, tool] of [["systemd", "systemctl"], ["launchd", "launchctl"]] as const) {
    await t.step(`without ${tool} the command explains it, exits with 1 and leaves no file`, async () => {
      const line = ["connector", "service", "install", "beta", "--platform", system];
      const { code, error } = await attempt(dir, line, without, program);
      assertEquals([code, error?.code], [1, "CLI_SERVICE_FAILED"]);
      assertStringIncludes(error?.message ?? "", `The service was rejected by ${tool}: it is not installed`);
      assert(!await isThere(unit) && !await isThere(`${home}/Library/LaunchAgents/com.svc.connector.beta.plist`));
    });
  }

  try {
    await t.step("install ends when the connector is connected; another install restarts it", async () => {
      const first = await svc(dir, install, within, program);
      assertEquals([first.connection, first.path, first.notes.length], ["connected", unit, 1]);
      const text = await Deno.readTextFile(unit);
      const second = await svc(dir, install, within, program);
      assertEquals([second.connection, second.pid === first.pid, await Deno.readTextFile(unit)], [
        "connected",
        false,
        text,
      ]);
      // A permission in the unit would be that of the release that wrote it.
      assert(text.includes('"-P=connector"') && !/--allow|-A"/.test(text), text);
      assert(!text.includes(env.SVC_HOOK_TOKEN) && text.includes(`"--config-dir" "${dir.replace("%", "%%")}"`), text);
      const saved = JSON.parse(await Deno.readTextFile(`${dir}/agents/beta/runtime.json`));
      assertEquals(saved.webhookToken, env.SVC_HOOK_TOKEN);
      assertEquals((await svcHere(dir, ["connector", "status"])).pid, second.pid);
    });

    await t.step("without journalctl the logs are reported as unavailable", async () => {
      const line = ["connector", "service", "logs", "beta", "--platform", "systemd"];
      const { code, error } = await attempt(dir, line, without, program);
      assertEquals([code, error?.code], [1, "CLI_SERVICE_FAILED"]);
    });

    await t.step("the program of --exec runs when a message arrives for the service", async () => {
      const [told, notify] = [`${service.home}/told`, `${bin}/notify`];
      const script = `#!/bin/sh\necho "$SVC_AGENT $SVC_UNREAD" > '${told}'\n`;
      await Deno.writeTextFile(notify, script, { mode: 0o755 });
      const sender = await service.agent("sender");
      const beta = await clientFromFiles(dir, "beta", service.url);
      const { ticket } = await sender.client.pairStart({ agentName: "sender", humanName: "S" });
      await beta.pairConfirm(ticket, { agentName: "beta", humanName: "B" });
      await svc(dir, [...install.slice(0, 6), "--inbox", "--exec", notify], within, program);
      const text = await Deno.readTextFile(unit);
      // This program only, beside those of the permission set.
      assert(/"--allow-run=grep,lsof,[^",]+"/.test(text) && text.includes(`"--exec" "${notify}"`), text);
      const { delivered } = await sender.client.sendMessage({
        recipientDid: beta.agent.did,
        payload: '{"message":"hi"}',
      });
      assertEquals(delivered, true);
      const said = await eventually(SOON_MS, "the program has run", async () => {
        const line = await Deno.readTextFile(told).catch(() => "");
        return line.endsWith("\n") ? line : undefined;
      });
      assertEquals(said, "beta 1\n");
      // An unread message would have to be handed to the runtime of the next steps.
      await svcHere(dir, ["inbox", "--take"]);
    });

    await t.step({
      name: "the service has the absolute path of the authority that a variable names",
      ignore: !HAS_OPENSSL || !IS_LONG,
      async fn() {
        const { path } = await PrivateAuthority.make(service.home);
        await svc(dir, install, { ...within, SVC_CA: relative(ROOT, path) }, program);
        assertStringIncludes(await Deno.readTextFile(unit), `"--ca" "${path}"`);
      },
    });

    await t.step({
      name: "the service sends replies, or keeps the messages, as the options say",
      ignore: !IS_LONG,
      async fn() {
        const runtimeOf = async () => (await svc(dir, ["connector", "status"], {}, program)).runtime;
        await svc(dir, ["install", "--for", "generic", "--agent-name", "beta"], within, program);
        await svc(dir, [...install, "--replies", "on"], within, program);
        assertEquals((await runtimeOf()).replies, true);
        const port = String(freePort());
        await svc(dir, [...install.slice(0, 6), "--inbox", "--port", port, "--strict"], within, program);
        const text = await Deno.readTextFile(unit);
        assert(text.includes(`"--port" "${port}" "--inbox"`) && text.includes('"--strict"'), text);
        assertEquals((await runtimeOf()).platform, "inbox");
        await svc(dir, install, within, program);
      },
    });

    await t.step("logs come from the system's log", async () => {
      const { lines } = await svc(
        dir,
        ["connector", "service", "logs", "beta", "--platform", "systemd"],
        within,
        program,
      );
      assertEquals(lines, ["a line of the journal"]);
    });

    await t.step("uninstalling twice leaves the same state", async () => {
      assertEquals((await svc(dir, uninstall, within, program)).removed, true);
      assertEquals((await svc(dir, uninstall, within, program)).removed, false);
      assert(!await isThere(unit) && !await isThere(env.PID));
      const calls = (await Deno.readTextFile(env.RECORD)).trimEnd().split("\n");
      const name = "svc-connector-beta.service";
      const starting = ["daemon-reload", `enable ${name}`, `restart ${name}`].map((call) => `systemctl --user ${call}`);
      assertEquals(calls.slice(0, 3), starting);
      assertEquals(calls.slice(-2), [`systemctl --user disable --now ${name}`, "systemctl --user daemon-reload"]);
    });

    await t.step("one service for all agents runs them and gets no runtime of the shell", async () => {
      const all = ["--all", "--platform", "systemd"];
      const installAll = ["connector", "service", "install", ...all];
      const refused = await attemptHere(dir, installAll, within);
      assertEquals([refused.code, refused.error?.code], [2, "CLI_USAGE"]);
      assertStringIncludes(refused.error?.message ?? "", "SVC_HOOK_TOKEN cannot be used for the service of several");
      const { SVC_HOOK_TOKEN: _, ...allowed } = within;
      const installed = await svc(dir, installAll, allowed, program);
      assertEquals(installed.agents, [{ agent: "beta", connection: "connected" }]);
      assertEquals(installed.path, `${env.XDG_CONFIG_HOME}/systemd/user/svc-connector.service`);
      const text = await Deno.readTextFile(installed.path);
      assert(text.includes(`"connector" "start" "--all" "--config-dir" "${dir.replace("%", "%%")}"\n`), text);
      const both = await attemptHere(dir, [...installAll, "beta"], allowed);
      assertEquals([both.code, both.error?.code], [2, "CLI_USAGE"]);
      const removed = await svc(dir, ["connector", "service", "uninstall", ...all], allowed, program);
      assertEquals([removed.removed, removed.agent, await isThere(installed.path)], [true, null, false]);
    });
  } finally {
    const pid = await Deno.readTextFile(env.PID).catch(() => null);
    if (pid !== null) Deno.kill(Number(pid), "SIGKILL");
  }
});
