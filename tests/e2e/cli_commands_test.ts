/**
 * Commands with real processes and sockets: `svc` as one file with the permissions that it ships with, and the compiled
 * binary. Also shows how commands end on a signal or a closed pipe (D-84). Decisions: D-103.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Place } from "../cli/place.ts";
import { clientFromFiles, denoDir, Listener } from "../cli/connector/people.ts";
import { ended, Machine, output, programs, Watched } from "../cli/program.ts";
import { machineTests } from "./harness.ts";
import { BOOTSTRAP_SECRET, eventually, newAgent, startServer, tempFolder } from "../support/process.ts";

const SECRET = /svc_(?:pat|agt|rft|srv|inv)_[A-Za-z0-9_-]{8,}/g;
const times = (text: string, part: string) => text.split(part).length - 1;

const place = await Place.open();
Deno.test.afterAll(() => place[Symbol.asyncDispose]());

for (const program of await programs()) {
  const test = machineTests(program, place);

  test("the folder for temporary files stays empty, and no program is run from it", async (_, machine) => {
    const folder = machine.env.TMPDIR = `${machine.folder.path}/tmp`;
    await Deno.mkdir(folder);
    for (const _ of [1, 2]) assertEquals((await machine.svc("config", "show")).code, 0);
    assertEquals([...Deno.readDirSync(folder)], []);
  });

  test("config get, set and show keep and mask values", async (_, machine) => {
    delete machine.env.SVC_API_KEY;
    assertEquals((await machine.svc("config", "get", "apiKey")).stdout, "(not set)\n");
    assertEquals((await machine.svc("config", "set", "apiKey", "svc_pat_x")).code, 0);
    assertEquals((await machine.svc("config", "get", "apiKey")).stdout, "svc_pat_x\n");
    const { stdout } = await machine.svc("config", "show");
    assertEquals([JSON.parse(stdout).apiKey, stdout.includes("svc_pat_x")], ["********", false]);
    for (const key of ["__proto__", "nonsense"]) assertEquals((await machine.svc("config", "get", key)).code, 2);
  });

  test("a key that cannot be saved is shown once, with exit code 1", async (_, machine) => {
    await using folder = await tempFolder();
    await using server = await startServer({ folder: folder.path });
    const invite = (await machine.json("invite", "create")).invite.code;
    const taken = `${machine.folder.path}/taken`;
    await Deno.mkdir(`${taken}/config.json/folder`, { recursive: true });
    const bootstrap = ["admin", "bootstrap", "--registry-url", server.address, "--bootstrap-secret", BOOTSTRAP_SECRET];
    delete machine.env.SVC_API_KEY;
    for (const [argv, dir] of [[bootstrap, "/dev/null/config"], [["invite", "redeem", invite], taken]] as const) {
      const { code, stdout, stderr } = await machine.svc(...argv, "--config-dir", dir);
      const [token = ""] = /svc_pat_\S+/.exec(stdout) ?? [];
      assertEquals([code, times(stdout, token), times(stderr, token)], [1, 1, 0], stderr);
      assertStringIncludes(stderr, "CLI_SAVE_FAILED");
    }
  });

  test("api-key create does not save the token", async (_, machine) => {
    await machine.json("config", "init");
    const { apiKey } = await machine.json("api-key", "create", "--name", "ci");
    const { code } = await output("grep", ["-r", apiKey.token, machine.folder.path]);
    assertEquals(code, 1, "grep finds nothing");
  });

  test("plain http to another machine and other schemes are refused", async (_, machine) => {
    for (const url of ["http://example.com", "ftp://example.com", "file:///etc/passwd", "javascript:alert(1)"]) {
      assertEquals((await machine.failure("config", "init", "--registry-url", url)).exit, 2);
    }
  });

  test("a redirect is not followed, and its target receives no request", async (place, machine) => {
    await machine.json("agent", "create", "alpha");
    const invite = (await machine.json("invite", "create")).invite.code;
    const requests: string[] = [];
    const canary = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
      requests.push([...request.headers.values(), request.url, await request.text()].join(" "));
      return new Response("hello");
    });
    for (const status of [301, 302, 307, 308]) {
      place.tamper = () => Promise.resolve(Response.redirect(`http://127.0.0.1:${canary.addr.port}/`, status));
      for (const argv of [["api-key", "list"], ["agent", "auth", "refresh", "alpha"], ["invite", "redeem", invite]]) {
        assertEquals((await machine.failure(...argv)).exit, 5);
      }
    }
    await canary.shutdown();
    assertEquals(requests, []);
  });

  test("a damaged config.json is left unchanged", async (_, machine) => {
    await Deno.mkdir(machine.dir, { mode: 0o700 });
    for (const content of ["", "{", "[]", '{"apiKey":1}', " ".repeat(10 * 1024 * 1024)]) {
      await Deno.writeTextFile(machine.path("config.json"), content);
      for (const argv of [["config", "show"], ["config", "set", "humanName", "x"], ["config", "init"]]) {
        assertEquals((await machine.failure(...argv)).code, "CLI_CONFIG_INVALID");
      }
      assertEquals(machine.read("config.json"), content);
    }
  });

  test("commands that can be repeated succeed when they run twice", async (_, machine) => {
    await machine.json("agent", "create", "alpha");
    for (const argv of [["config", "init"], ["agent", "auth", "revoke", "alpha"]]) {
      const [first, second] = [await machine.svc(...argv), await machine.svc(...argv)];
      assertEquals([first.code, second.code], [0, 0]);
    }
    const { invite } = await machine.json("invite", "create");
    await using other = await Machine.open(program, { url: machine.env.SVC_REGISTRY_URL ?? "", apiKey: "" });
    assertEquals((await other.svc("invite", "redeem", invite.code)).code, 0);
    assertEquals((await other.failure("invite", "redeem", invite.code)).code, "INVITE_REDEEM_ALREADY_USED");
    assertEquals((await machine.failure("agent", "create", "alpha")).code, "CLI_AGENT_EXISTS");
  });

  test(
    "set-up and uninstall can be repeated, and doctor is read-only",
    async (_, machine) => {
      await machine.json("agent", "create", "alpha");
      Object.assign(machine.env, { HOME: machine.folder.path, DENO_DIR: denoDir() });
      const commands = [
        ["install", "--for", "generic"],
        ["provider", "setup", "--for", "generic"],
        ["connector", "service", "uninstall", "alpha", "--platform", "systemd"],
      ];
      for (const argv of commands) {
        await machine.json(...argv);
        const before = await treeOf(machine.folder.path);
        await machine.json(...argv);
        assertEquals(await treeOf(machine.folder.path), before, argv.join(" "));
      }
      const before = await treeOf(machine.folder.path, true);
      for (const argv of [["provider", "doctor"], ["provider", "doctor", "--skip-connector-runtime"]]) {
        const { code, stdout } = await machine.svc(...argv, "--json");
        assertEquals([code, typeof JSON.parse(stdout)], [1, "object"], "no connector runs");
      }
      assertEquals(await treeOf(machine.folder.path, true), before);
    },
  );

  test(
    "systemd accepts the service of an agent in an unusual folder",
    async (_, machine) => {
      const { path: home } = machine.folder;
      const odd = `${home}/a b $x;\`touch ${home}/ran\` %h "q" 'q'`;
      Object.assign(machine.env, { SVC_CONFIG_DIR: odd, HOME: home, XDG_CONFIG_HOME: home, DENO_DIR: denoDir() });
      for (const argv of [["config", "init"], ["agent", "create", "alpha"]]) await machine.json(...argv);
      await Deno.mkdir(`${home}/bin`);
      await Deno.writeTextFile(`${home}/bin/systemctl`, `#!/bin/sh\necho "$*" >>'${home}/calls'\n`, { mode: 0o755 });
      machine.env.PATH = `${home}/bin:${Deno.env.get("PATH")}`;
      const installing = machine.spawn(["connector", "service", "install", "alpha", "--platform", "systemd"]);
      // No connector starts here: the command is ended once it has given systemd all its input.
      const calls = await eventually(10_000, "systemd gets the unit", async () => {
        const text = await Deno.readTextFile(`${home}/calls`).catch(() => "");
        return text.includes("restart") ? text : undefined;
      });
      installing.kill("SIGINT");
      assertEquals((await ended(installing)).code, 130);
      const unit = "svc-connector-alpha.service";
      assertEquals(
        calls.split("\n").slice(0, 3),
        ["daemon-reload", "enable", "restart"].map((word, i) => `--user ${word}${i === 0 ? "" : ` ${unit}`}`),
      );
      const file = `${home}/systemd/user/${unit}`;
      const text = await Deno.readTextFile(file);
      assertEquals(text.split("\n").filter((line) => line.startsWith("ExecStart=")).length, 1);
      assert(!text.includes(machine.env.SVC_API_KEY ?? "-"), "no secret");
      const judged = await output("systemd-analyze", ["--user", "verify", "--man=no", file], { XDG_RUNTIME_DIR: home })
        .catch(() => null);
      if (judged === null) console.log("systemd-analyze is not on this machine: the unit is NOT checked by it");
      else assertEquals(judged.stderr.split("\n").filter((line) => line.includes(unit)), []);
      assertEquals(machine.exists("../ran"), false, "no program was run");
    },
  );

  test("every JSON output parses and shows no secret except an issued one", async (_, machine) => {
    await machine.json("agent", "create", "alpha");
    const lines: [string[], number][] = [
      [["config", "init"], 0],
      [["config", "show"], 0],
      [["api-key", "list"], 0],
      [["api-key", "create", "--name", "x"], 1],
      // The code, also within the link that accepts it.
      [["invite", "create"], 2],
      [["admin", "service", "list"], 0],
      [["admin", "service", "create", `extra-${program.name}`], 1],
      [["agent", "list"], 0],
      [["agent", "inspect", "alpha"], 0],
      [["agent", "auth", "refresh", "alpha"], 0],
      [["agent", "reissue", "alpha"], 0],
      [["agent", "auth", "revoke", "alpha"], 0],
      [["agent", "delete", "alpha"], 0],
    ];
    for (const [argv, secrets] of lines) {
      const { code, stdout, stderr } = await machine.svc(...argv, "--json");
      assertEquals([code, stderr], [0, ""], argv.join(" "));
      assertEquals(typeof JSON.parse(stdout), "object", argv.join(" "));
      assertEquals(stdout.match(SECRET)?.length ?? 0, secrets, argv.join(" "));
    }
    const { stderr } = await machine.svc("agent", "inspect", "alpha", "--json");
    assertEquals(JSON.parse(stderr).error.code, "CLI_AGENT_UNKNOWN");
  });

  test("a wrong clock is reported", async (place, machine) => {
    await machine.json("agent", "create", "alpha");
    place.tamper = async () => {
      const error = { code: "AGENT_AUTH_REFRESH_UNAUTHORIZED", message: "X-Svc-Timestamp is over 300 s off" };
      const headers = { Date: new Date(Date.now() + 600_000).toUTCString() };
      return await Promise.resolve(Response.json({ error }, { status: 401, headers }));
    };
    const { exit, message } = await machine.failure("agent", "auth", "refresh", "alpha");
    assertEquals(exit, 3);
    assert(/clock is (?:9 min 5\d|10 min \d) s behind/.test(message), message);
  });

  test("a secret from the environment or standard input is in no command line", async (place, machine) => {
    const secret = "svc_pat_never-in-a-command-line";
    const lines: string[] = [];
    place.tamper = async (_, forward) => {
      lines.push((await output("ps", ["-eo", "args"])).stdout);
      return await forward();
    };
    machine.env.SVC_API_KEY = secret;
    assertEquals((await machine.svc("api-key", "list")).code, 3);
    const child = machine.spawn(["api-key", "list", "--api-key", "-"], { stdin: "piped" });
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(`${secret}\n`));
    await writer.close();
    assertEquals((await ended(child)).code, 3);
    assertEquals(lines.length, 2);
    for (const line of lines) assert(line.includes("api-key list") && !line.includes(secret));
  });

  test(
    "a refresh whose answer is lost is recovered without the owner, with one live token pair",
    async (place, machine) => {
      await machine.json("agent", "create", "alpha");
      delete machine.env.SVC_API_KEY;
      const began = Date.now();
      for (const losses of [1, 2]) {
        place.lose(/\/refresh$/, losses);
        for (let i = 0; i < losses; i++) {
          assertEquals(
            (await machine.failure("agent", "auth", "refresh", "alpha")).exit,
            5,
          );
        }
        assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "recovered");
        assert(await place.works(machine, "alpha"));
      }
      assert(Date.now() - began < 60_000);
      place.tamper = null;
      const before = machine.read("agents/alpha/registry-auth.json");
      await machine.json("agent", "auth", "refresh", "alpha");
      await Deno.writeTextFile(machine.path("agents/alpha/registry-auth.json"), before);
      assertEquals((await machine.failure("agent", "auth", "refresh", "alpha")).code, "AGENT_AUTH_REFRESH_INVALID");
    },
  );

  test("a request whose connection breaks is not sent again automatically", async (place, machine) => {
    const { invite } = await machine.json("invite", "create");
    const asked: string[] = [];
    place.tamper = async (request, forward) => {
      asked.push(new URL(request.url).pathname);
      const response = await forward();
      if (!/\/v1\/agents$|redeem/.test(request.url)) return response;
      await response.body?.cancel();
      return null;
    };
    assertEquals((await machine.failure("agent", "create", "alpha")).exit, 5);
    assertEquals((await machine.failure("invite", "redeem", invite.code)).exit, 5);
    assertEquals(asked, ["/v1/agents/challenge", "/v1/agents", "/v1/invites/redeem"]);
  });

  test("SIGINT ends a command at once, and the next run resumes its work", async (place, machine) => {
    const interrupted = async (...options: string[]) => {
      const asked = Promise.withResolvers<void>();
      place.tamper = (_, forward) => {
        asked.resolve();
        return new Promise((resolve) => setTimeout(() => resolve(forward()), 1_000));
      };
      const child = machine.spawn(["agent", "create", "alpha", ...options]);
      await asked.promise;
      child.kill("SIGINT");
      const { code, stderr } = await ended(child);
      assertEquals(code, 130);
      return stderr;
    };
    assertEquals(await interrupted(), "Interrupted.\n");
    assertEquals(JSON.parse(await interrupted("--json")).error.code, "CLI_INTERRUPTED");
    place.tamper = null;
    assertEquals((await machine.json("agent", "create", "alpha")).resumed, true);
  });

  test("Ctrl-C makes a connector finish its work, and a second one ends it at once", async (place, machine) => {
    await machine.json("agent", "create", "beta");
    const sender = await newAgent({ registryUrl: place.url, proxyUrl: place.url }, place.apiKey, "sender");
    const beta = await clientFromFiles(machine.dir, "beta", place.url);
    const { ticket } = await sender.client.pairStart({ agentName: "sender", humanName: "S" });
    await beta.pairConfirm(ticket, { agentName: "beta", humanName: "B" });
    for (const presses of [1, 2]) {
      await using runtime = new Listener();
      const isHanded = Promise.withResolvers<void>();
      const mayAnswer = Promise.withResolvers<number>();
      runtime.answer = () => (isHanded.resolve(), mayAnswer.promise);
      await using connector = new Watched(machine.spawn([
        ...["connector", "start", "beta", "--runtime-base-url", runtime.url],
        ...["--proxy-ws-url", place.server.address.replace("http:", "ws:")],
      ]));
      await connector.prints(/"event":"connected"/);
      await sender.client.sendMessage({ recipientDid: beta.agent.did, payload: '{"message":"hi"}' });
      await isHanded.promise;
      connector.child.kill("SIGINT");
      await connector.prints(/"event":"stopping"/);
      if (presses === 1) mayAnswer.resolve(200);
      else {
        await new Promise((resolve) => setTimeout(resolve, 300));
        connector.child.kill("SIGINT");
      }
      const { code } = await connector.child.status;
      assertEquals(code, presses === 1 ? 0 : 130, connector.printed);
      assertEquals(/"event":"stopped"/.test(connector.printed), presses === 1, connector.printed);
      mayAnswer.resolve(200);
    }
  });

  test("a command succeeds when the reader of its output leaves", async (_, machine) => {
    const child = machine.spawn(["--help"]);
    await child.stdout.cancel();
    const { code } = await child.status;
    await child.stderr.cancel();
    assertEquals(code, 0);
  });

  test("svc starts with an empty PATH, and on Deno 2.9 also without any environment", async () => {
    // Deno before 2.9 resolves the names of --allow-run at its start and exits without a PATH.
    const startsWithout = program.name === "bundled" ? [{}, { PATH: "" }] : [{ PATH: "" }];
    for (const env of startsWithout) {
      const { command, args } = program;
      const child = new Deno.Command(command, {
        args: [...args, "explain", "CLI_BUSY", "--json"],
        env,
        clearEnv: true,
      });
      const { code, stdout, stderr } = await child.output();
      const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      assertEquals([code, err, JSON.parse(out ?? "").code], [0, "", "CLI_BUSY"]);
    }
  });

  test("no command asks a question or waits for one without a terminal", async (_, machine) => {
    await machine.json("agent", "create", "alpha");
    const child = machine.spawn(["agent", "delete", "alpha"], { stdin: "piped" });
    const { code } = await ended(child);
    await child.stdin.close().catch(() => {});
    assertEquals(code, 0);
  });
}

/** Every file in a folder with its content, and the write times of files and folders. */
async function treeOf(folder: string, withTimes = false): Promise<Record<string, string>> {
  const tree: Record<string, string> = {};
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    const { mtime } = await Deno.lstat(path);
    tree[path] = (withTimes ? `${mtime?.toISOString()} ` : "") + (isDirectory ? "" : await Deno.readTextFile(path));
    if (isDirectory) Object.assign(tree, await treeOf(path, withTimes));
  }
  return tree;
}
