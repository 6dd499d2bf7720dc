/**
 * Commands with real processes and sockets: `svc` as one file with the permissions that it ships with, and the compiled
 * binary. Also shows how commands end on a signal or a closed pipe.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Place } from "../cli/place.ts";
import { attemptHere, clientFromFiles, denoDir, Listener, svcHere } from "../cli/connector/people.ts";
import { ended, output, programs, Watched } from "../cli/program.ts";
import { machineTests } from "./harness.ts";
import { eventually, freePort, newAgent, SOON_MS } from "../support/process.ts";

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

  test("a redirect is not followed, and its target receives no request", async (place, { dir, env }) => {
    await svcHere(dir, ["agent", "create", "alpha"], env);
    const invite = (await svcHere(dir, ["invite", "create"], env)).invite.code;
    const requests: string[] = [];
    const canary = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
      requests.push([...request.headers.values(), request.url, await request.text()].join(" "));
      return new Response("hello");
    });
    const list = ["api-key", "list"];
    const lines = [list, list, ["agent", "auth", "refresh", "alpha"], ["invite", "redeem", invite]];
    for (const [i, status] of [301, 302, 307, 308].entries()) {
      place.tamper = () => Promise.resolve(Response.redirect(`http://127.0.0.1:${canary.addr.port}/`, status));
      assertEquals((await attemptHere(dir, lines[i] ?? list, env)).code, 5);
    }
    await canary.shutdown();
    assertEquals(requests, []);
  });

  test(
    "set-up and uninstall can be repeated, and doctor is read-only",
    async (_, machine) => {
      const here = (argv: readonly string[]) => svcHere(machine.dir, argv, machine.env);
      await here(["agent", "create", "alpha"]);
      Object.assign(machine.env, { HOME: machine.folder.path, DENO_DIR: denoDir() });
      // At the usual port a listener of another test could be taken for the runtime.
      const runtime = `http://127.0.0.1:${freePort()}`;
      const commands = [
        ["install", "--for", "generic"],
        ["provider", "setup", "--for", "generic", "--platform-base-url", runtime],
        ["connector", "service", "uninstall", "alpha", "--platform", "systemd"],
      ];
      for (const argv of commands) {
        await here(argv);
        const before = await treeOf(machine.folder.path);
        await here(argv);
        assertEquals(await treeOf(machine.folder.path), before, argv.join(" "));
      }
      const before = await treeOf(machine.folder.path, true);
      for (const argv of [["provider", "doctor"], ["provider", "doctor", "--skip-connector-runtime"]]) {
        const { code, result } = await attemptHere(machine.dir, argv, machine.env);
        assertEquals([code, typeof result], [1, "object"], "no connector runs");
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
      for (const argv of [["config", "init"], ["agent", "create", "alpha"]]) await svcHere(odd, argv, machine.env);
      await Deno.mkdir(`${home}/bin`);
      await Deno.writeTextFile(`${home}/bin/systemctl`, `#!/bin/sh\necho "$*" >>'${home}/calls'\n`, { mode: 0o755 });
      machine.env.PATH = `${home}/bin:${Deno.env.get("PATH")}`;
      const installing = machine.spawn(["connector", "service", "install", "alpha", "--platform", "systemd"]);
      // No connector starts here: the command is ended once it has given systemd all its input.
      const calls = await eventually(SOON_MS, "systemd gets the unit", async () => {
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

  test("a request whose connection breaks is not sent again automatically", async (place, { dir, env }) => {
    const { invite } = await svcHere(dir, ["invite", "create"], env);
    const asked: string[] = [];
    place.tamper = async (request, forward) => {
      asked.push(new URL(request.url).pathname);
      const response = await forward();
      if (!/\/v1\/agents$|redeem/.test(request.url)) return response;
      await response.body?.cancel();
      return null;
    };
    assertEquals((await attemptHere(dir, ["agent", "create", "alpha"], env)).code, 5);
    assertEquals((await attemptHere(dir, ["invite", "redeem", invite.code], env)).code, 5);
    assertEquals(asked, ["/v1/agents/challenge", "/v1/agents", "/v1/invites/redeem"]);
  });

  test("SIGINT ends a command at once, and the next run resumes its work", async (place, machine) => {
    const interrupted = async (...options: string[]) => {
      const asked = Promise.withResolvers<void>(), isOver = Promise.withResolvers<void>();
      place.tamper = async (_, forward) => {
        asked.resolve();
        await isOver.promise;
        return await forward();
      };
      const child = machine.spawn(["agent", "create", "alpha", ...options]);
      await asked.promise;
      child.kill("SIGINT");
      const { code, stderr } = await ended(child);
      isOver.resolve();
      assertEquals(code, 130);
      return stderr;
    };
    assertEquals(await interrupted(), "Interrupted.\n");
    assertEquals(JSON.parse(await interrupted("--json")).error.code, "CLI_INTERRUPTED");
    place.tamper = null;
    assertEquals((await svcHere(machine.dir, ["agent", "create", "alpha"], machine.env)).resumed, true);
  });

  test("Ctrl-C makes a connector finish its work, and a second one ends it at once", async (place, machine) => {
    await svcHere(machine.dir, ["agent", "create", "beta"], machine.env);
    // The connector below knows the proxy by this address only, and a message must be signed for the address that it knows.
    const urls = { registryUrl: place.url, proxyUrl: place.server.address };
    const sender = await newAgent(urls, place.apiKey, "sender");
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
      const { code } = await connector.over();
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
    await svcHere(machine.dir, ["agent", "create", "alpha"], machine.env);
    const child = machine.spawn(["agent", "delete", "alpha"], { stdin: "piped" });
    const { code, stderr } = await ended(child);
    await child.stdin.close().catch(() => {});
    assertEquals(code, 2);
    assertStringIncludes(stderr, "add --yes");
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
