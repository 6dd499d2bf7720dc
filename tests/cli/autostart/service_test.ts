/** The exact text of units and property lists, and that installing and uninstalling can be repeated. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import {
  chooseSystem,
  escaped,
  type Host,
  plistText,
  quoted,
  Service,
  type ServiceSystem,
  thisHost,
  unitText,
} from "../../../cli/autostart/control.ts";
import { installConnector, installFleet } from "../../../cli/connector/service_setup.ts";
import { boundLog } from "../../../cli/autostart/service_log.ts";
import { CliError } from "../../../cli/errors.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { tempFolder } from "../../support/temp_folder.ts";
import { Machine } from "../cli_world.ts";
import { contextOf } from "../connector/context.ts";
import type { Context } from "../../../cli/context.ts";
import { systemClock } from "../../../shared/clock.ts";
import { machineWithAlpha } from "../connector/local_machine.ts";

const NASTY = ["/opt/with space/svc", "--config-dir", `/home/a b/$HOME/%h;"q"/'s'\\x\`id\`\n&<>`, "$(touch /tmp/x)"];
const SPEC = { command: NASTY, logPath: "/opt/a b/&/connector.log" };
const alphaOf = (host: Host, system: ServiceSystem) => new Service(host, system, "alpha", null);
const allOf = (host: Host, system: ServiceSystem) => new Service(host, system, null, null);

Deno.test("quoting keeps every character in one word of a unit", () => {
  assertEquals(quoted("plain"), '"plain"');
  assertEquals(quoted('a "b" c'), '"a \\"b\\" c"');
  assertEquals(quoted("100%"), '"100%%"');
  assertEquals(quoted("$HOME"), '"$HOME"');
  assertEquals(quoted("a\\b"), '"a\\\\b"');
  assertEquals(quoted("a\nb"), '"a\\x0ab"');
});

Deno.test("the unit restarts, stops in time, expands no variable and keeps each value on one line", () => {
  const text = unitText("alpha", NASTY);
  const exec = text.split("\n").filter((line) => line.startsWith("ExecStart="));
  assertEquals(exec.length, 1);
  assertStringIncludes(exec[0] ?? "", 'ExecStart=:"/opt/with space/svc"');
  const lines = ["Restart=always", "RestartPreventExitStatus=2 3 4", "WantedBy=default.target", "UMask=0077"];
  for (const line of [...lines, "Environment=DENO_NO_UPDATE_CHECK=1"]) assertStringIncludes(text, `\n${line}\n`);
});

const HAS_SYSTEMD = await new Deno.Command("systemd-analyze", { args: ["--version"] }).output()
  .then(({ success }) => success, () => false);

/** systemd's messages about one user unit, line by line; other units of this machine are left out. */
async function complaints(folder: string, text: string): Promise<string[]> {
  const name = "svc-connector-alpha.service";
  await Deno.writeTextFile(`${folder}/${name}`, text);
  const { stderr } = await new Deno.Command("systemd-analyze", {
    args: ["--user", "verify", "--man=no", `${folder}/${name}`],
    clearEnv: true,
    // A home of its own: no file of the user is read.
    env: { PATH: Deno.env.get("PATH") ?? "", HOME: folder, XDG_RUNTIME_DIR: folder, TMPDIR: folder },
  }).output();
  return new TextDecoder().decode(stderr).split("\n").filter((line) => line.includes(name));
}

Deno.test({
  name: "systemd itself accepts the unit",
  ignore: !HAS_SYSTEMD,
  async fn() {
    await using temp = await tempFolder();
    const folder = `${temp.path}/svc unit`, program = `${folder}/a b $x %h;`;
    await Deno.mkdir(folder);
    await Deno.writeTextFile(program, "#!/bin/sh\n", { mode: 0o755 });
    const text = unitText("alpha", [program, ...NASTY.slice(1)]);
    assertEquals(await complaints(folder, text), []);
    // It does report a unit that is wrong.
    assert((await complaints(folder, text.replace("a b $x", "a b $y"))).length > 0);
  },
});

Deno.test("the property list holds each argument unchanged", () => {
  assertEquals(escaped(`<a & "b" 'c'>\u0001`), "&lt;a &amp; &quot;b&quot; &apos;c&apos;&gt;");
  const text = plistText("com.svc.connector.alpha", SPEC);
  assertStringIncludes(text, "<string>com.svc.connector.alpha</string>");
  assertStringIncludes(text, "<string>/opt/a b/&amp;/connector.log</string>");
  assertStringIncludes(text, "<key>DENO_NO_UPDATE_CHECK</key><string>1</string>");
  assertEquals(text.match(/<string>\$\(touch \/tmp\/x\)<\/string>/g)?.length, 1);
});

Deno.test("launchd gets success for an end that systemd takes as final, so that neither starts the service again", async () => {
  assertStringIncludes(unitText("alpha", NASTY), "RestartPreventExitStatus=2 3 4\n");
  assertStringIncludes(plistText("x", SPEC), "<key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>");
  assertStringIncludes(
    plistText("x", SPEC),
    "<key>SVC_SERVICE_LOG</key><string>/opt/a b/&amp;/connector.log</string>",
  );
  await using machine = await Machine.open();
  const codes = async () => [
    (await machine.svc("connector", "start", "ghost")).code,
    (await machine.svc("connector", "start", "--port", "x")).code,
    (await machine.svc("peers", "--agent", "ghost")).code,
  ];
  assertEquals(await codes(), [4, 4, 4]);
  machine.env.SVC_SERVICE_LOG = "/nowhere";
  assertEquals(await codes(), [0, 0, 4]);
});

Deno.test("the log of a service under launchd is emptied when it is over 16 MiB, at the start and each hour", async () => {
  await using folder = await tempFolder();
  const path = `${folder.path}/connector.log`, clock = new ManualClock(), most = 16 * 1024 ** 2;
  const sizeAfter = async (size: number, look: () => unknown) => {
    Deno.writeFileSync(path, new Uint8Array());
    Deno.truncateSync(path, size);
    await look();
    if (size > most) await until(() => Deno.statSync(path).size === 0);
    return Deno.statSync(path).size;
  };
  let end = () => {};
  assertEquals(await sizeAfter(most + 1, () => end = boundLog({ clock, env: () => path })), 0);
  assertEquals(await sizeAfter(most, () => clock.advance(3_600_000)), most);
  assertEquals(await sizeAfter(most + 1, () => clock.advance(3_600_000)), 0);
  end();
  boundLog({ clock, env: () => undefined });
  assertEquals(clock.waiting, 0);
});

class FakeHost implements Host {
  readonly uid = 1000;
  readonly ran: string[] = [];
  fails = "";
  constructor(readonly home: string) {}
  get configHome(): string {
    return `${this.home}/.config`;
  }
  run(program: string, args: readonly string[]) {
    const line = [program, ...args].join(" ");
    this.ran.push(line);
    const code = this.fails !== "" && line.includes(this.fails) ? 1 : 0;
    return Promise.resolve({
      code,
      stdout: line.startsWith("loginctl") ? "Linger=no\n" : "",
      stderr: "its own reason",
    });
  }
}

async function withHost(run: (host: FakeHost) => Promise<void>): Promise<void> {
  await using home = await tempFolder();
  await run(new FakeHost(home.path));
}

/** On each system, with an empty home. */
async function onEachSystem(t: Deno.TestContext, run: (host: FakeHost, system: ServiceSystem) => Promise<void>) {
  for (const system of ["systemd", "launchd"] as const) {
    await t.step(system, () => withHost((host) => run(host, system)));
  }
}

Deno.test("installing and uninstalling twice leaves the same state; lingering is suggested", async (t) => {
  await onEachSystem(t, async (host, system) => {
    const service = alphaOf(host, system), first = await service.install(SPEC);
    const text = await Deno.readTextFile(service.path);
    assertEquals(await service.install(SPEC), first);
    assertEquals(await Deno.readTextFile(service.path), text);
    assertEquals(first.length, system === "systemd" ? 1 : 0);
    assertEquals(await alphaOf(host, system).uninstall(), true);
    assertEquals(await alphaOf(host, system).uninstall(), false);
    assertEquals(await Deno.stat(service.path).then(() => "there", () => "gone"), "gone");
  });
});

Deno.test("the service of all agents has a name without an agent, beside the services of single agents", async (t) => {
  const names = { systemd: "svc-connector.service", launchd: "com.svc.connector" } as const;
  await onEachSystem(t, async (host, system) => {
    const single = alphaOf(host, system), all = allOf(host, system);
    await single.install(SPEC);
    await all.install(SPEC);
    const text = await Deno.readTextFile(all.path);
    assertEquals(all.name, names[system]);
    assertStringIncludes(text, system === "systemd" ? "Description=svc connector of all agents" : names.launchd);
    assertEquals(await allOf(host, system).uninstall(), true);
    assertEquals(await Deno.stat(single.path).then(({ isFile }) => isFile), true);
  });
  const { args } = allOf(new FakeHost("/"), "systemd").logCommand("/log", 5, true);
  assertEquals(args.slice(0, 3), ["--user", "--unit", names.systemd]);
});

Deno.test("the service of all agents starts with the options that are for each of them", () =>
  withHost(async (host) => {
    await using machine = await Machine.open();
    const install = async (options: Parameters<typeof installFleet>[3]) => {
      const context = contextOf(machine.world, machine);
      return await Deno.readTextFile((await installFleet(context, host, ["/svc"], options)).path);
    };
    const options = { platform: "systemd", "proxy-ws-url": "ws://127.0.0.1:1", strict: true, inbox: true };
    assertStringIncludes(await install({ ...options, replies: "off" }), '"--strict" "--replies" "off" "--inbox"');
    assert(!(await install(options)).includes("--replies"));
    await assertRejects(() => install({ ...options, replies: "never" }), CliError, "--replies is one of");
  }));

Deno.test("the service of an agent that reads its messages keeps --replies, and is waited for 20 s by any clock", () =>
  withHost(async (host) => {
    await using machine = await machineWithAlpha();
    let looks = 0, late = () => {};
    // No connector starts in this test, so each wait for it passes at once, and the clock goes back meanwhile.
    const clock = {
      now: () => 0 - 3_600_000 * looks,
      uptime: () => 0,
      after(ms: number, fn: () => void) {
        if (looks > 1_000) throw new Error("the wait has no end");
        if (ms === 20_000) late = fn;
        else queueMicrotask(fn);
        if (++looks === 80) late();
        return () => {};
      },
    };
    const options = { platform: "systemd", inbox: true, "proxy-ws-url": "ws://127.0.0.1:1" };
    const install = async (replies: string) => {
      const env = (name: keyof typeof machine.env) => name === "SVC_PROXY_URL" ? undefined : machine.env[name];
      const context = { ...contextOf(machine.world, machine), clock, env };
      await assertRejects(
        () => installConnector(context, host, ["/svc"], "alpha", { ...options, replies }),
        CliError,
        replies === "on" ? "its connector did not start" : "--replies is one of",
      );
    };
    await install("on");
    assertStringIncludes(await Deno.readTextFile(alphaOf(host, "systemd").path), '"--replies" "on" "--inbox"');
    await install("never");
  }));

Deno.test("a service of another configuration folder is neither replaced nor removed, and names a way on", async (t) => {
  await onEachSystem(t, async (host, system) => {
    const [, , own = ""] = NASTY;
    await alphaOf(host, system).requireOwn(own);
    await alphaOf(host, system).install(SPEC);
    await alphaOf(host, system).requireOwn(own);
    for (const other of ["/home/bob/.config/svc", own.slice(0, -1), `${own}/x`]) {
      const refused = await assertRejects(() => alphaOf(host, system).requireOwn(other), CliError);
      assertEquals(refused.code, "CLI_USAGE");
      assertStringIncludes(refused.fix ?? "", "svc --profile <profile>");
    }
  });
});

Deno.test("units are in the folder of XDG_CONFIG_HOME, unless that is a relative path, which systemd ignores too", () => {
  for (const [given, configHome] of [["/etc/mine", "/etc/mine"], ["mine", "/home/a/.config"]]) {
    const env = (name: string) => ({ HOME: "/home/a", XDG_CONFIG_HOME: given })[name];
    assertEquals(thisHost({ env, uid: 1, clock: systemClock } as unknown as Context).configHome, configHome);
  }
});

Deno.test("a proxy that only SVC_PROXY_URL names is refused, because the service would call the saved one", () =>
  withHost(async (host) => {
    const configDir = `${host.home}/svc`, url = "https://proxy.example";
    const env = (name: string) => name === "SVC_PROXY_URL" ? `${url}/` : undefined;
    const ctx = {
      configDir,
      baseDir: configDir,
      env,
      os: "linux",
      uid: null,
      clock: systemClock,
    } as unknown as Context;
    const install = () => installFleet(ctx, host, ["/opt/svc"], {});
    const save = (proxyUrl: string) => Deno.writeTextFile(`${configDir}/config.json`, JSON.stringify({ proxyUrl }));
    await Deno.mkdir(configDir);
    for (const saved of [null, "https://other.example"]) {
      if (saved !== null) await save(saved);
      const { code, fix } = await assertRejects(install, CliError);
      assertEquals([code, fix], ["CLI_USAGE", `svc config set proxyUrl ${url}`]);
      assertEquals(host.ran, []);
    }
    await save(url);
    assertStringIncludes(await Deno.readTextFile((await install()).path), '"connector" "start" "--all"');
  }));

Deno.test("the same name in two profiles is two services, and no name of an agent is that of another's", async (t) => {
  const names = [["a", null], ["a", "work"], ["a.work", null], ["work", null], [null, "work"], [null, null]] as const;
  await onEachSystem(t, async (host, system) => {
    const services = names.map(([agentName, profile]) => new Service(host, system, agentName, profile));
    for (const service of services) await service.install(SPEC);
    assertEquals(new Set(services.map(({ path }) => path)).size, services.length);
    assertEquals(await new Service(host, system, "a", "work").uninstall(), true);
    assertEquals(await new Service(host, system, "a", null).uninstall(), true);
  });
});

Deno.test("a program whose path systemd would refuse is refused before any file is written", () =>
  withHost(async (host) => {
    const spec = { ...SPEC, command: ['/opt/"q"/svc'] };
    await assertRejects(() => alphaOf(host, "systemd").install(spec), CliError, "move it");
    assertEquals(host.ran, []);
  }));

Deno.test("an install that the service manager rejects is reported with the manager's own words", () =>
  withHost(async (host) => {
    for (const step of ["daemon-reload", "enable", "restart"]) {
      host.fails = step;
      await assertRejects(() => alphaOf(host, "systemd").install(SPEC), CliError, "its own reason");
      assertEquals(await Deno.stat(alphaOf(host, "systemd").path).then(() => "there", () => "gone"), "gone");
      // No link to it stays among the units that start at login.
      assert(host.ran.some((line) => line.startsWith("systemctl --user disable --now")));
      host.ran.length = 0;
    }
  }));

Deno.test("a service that its manager does not stop is removed, and said to run perhaps", () =>
  withHost(async (host) => {
    await alphaOf(host, "systemd").install(SPEC);
    host.fails = "disable";
    const warnings: string[] = [];
    assertEquals(await alphaOf(host, "systemd").uninstall((text) => warnings.push(text)), true);
    assertEquals(warnings, [
      "svc-connector-alpha.service may still run, because systemctl failed: its own reason",
    ]);
  }));

Deno.test("the service manager is chosen by name or by the machine, and logs come from it", () => {
  assertEquals([chooseSystem("auto", "linux"), chooseSystem("auto", "darwin")], ["systemd", "launchd"]);
  assertEquals(chooseSystem("launchd", "linux"), "launchd");
  const host = new FakeHost("/");
  const { args } = alphaOf(host, "systemd").logCommand("/log", 5, true);
  assertEquals(args.slice(0, 3), ["--user", "--unit", "svc-connector-alpha.service"]);
  const ofLaunchd = alphaOf(host, "launchd").logCommand("/log", 5, false);
  assertEquals(ofLaunchd, { program: "tail", args: ["-n", "5", "/log"] });
});
