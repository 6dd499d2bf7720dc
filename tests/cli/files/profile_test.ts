/** Profiles: accounts side by side, and trust that is saved once with its server. */
import { assert, assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { NOTIFY } from "../../../cli/files/profile.ts";
import { BOOTSTRAP_SECRET, PROXY_URL, REGISTRY_URL, World } from "../../support/world.ts";
import { bootstrapped, Machine } from "../cli_world.ts";
import { everyCommand, everyList } from "../every_command.ts";

const PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
const PLAIN = "http://registry.lan:8787";

/** A machine of a person whose registry and proxy are at one plain http address. */
async function plainMachine(world: World): Promise<Machine> {
  const machine = await Machine.open(world, { env: { SVC_REGISTRY_URL: "" } });
  const { fetch } = machine;
  machine.fetch = (async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = new Request(input, init);
    if (!request.url.startsWith(PLAIN)) throw new TypeError("not reached");
    const answer = await fetch(new Request(REGISTRY_URL + request.url.slice(PLAIN.length), request));
    if (!request.url.endsWith("/v1/metadata")) return answer;
    return Response.json({ ...await answer.json(), registryUrl: PLAIN, proxyUrl: PLAIN });
  }) as typeof fetch;
  return machine;
}

const profile = (machine: Machine, folder = "") => JSON.parse(machine.read(`${folder}profile.json`));

Deno.test("--allow-insecure is needed once, and permits the addresses of that server alone", async (t) => {
  await using admin = await bootstrapped();
  const { code } = (await admin.json("invite", "create")).invite;
  const makers: Record<string, string[][]> = {
    join: [["join", `${PLAIN}/join#${code}`]],
    "config init": [["config", "init", "--registry-url", PLAIN]],
    "config set": [["config", "set", "registryUrl", PLAIN], ["config", "set", "proxyUrl", PLAIN]],
  };
  for (const [name, lines] of Object.entries(makers)) {
    await t.step(name, async () => {
      await using machine = await plainMachine(admin.world);
      assertEquals((await machine.failure(...lines[0] ?? [])).code, "CLI_INSECURE_URL");
      for (const line of lines) assertEquals((await machine.svc(...line, "--allow-insecure")).code, 0);
      assertEquals(profile(machine).insecureOrigins, [PLAIN]);
      if (name === "join") assertEquals((await machine.json("whoami")).human.role, "user");
      else machine.env.SVC_API_KEY = JSON.parse(admin.read("config.json")).apiKey;
      assertEquals((await machine.json("agent", "list")).agents, []);
      // Another port may be another program.
      await machine.refuses(["whoami", "--registry-url", "http://registry.lan:8788"], 2, "CLI_INSECURE_URL");
      await machine.svc("profile", "set", "insecure", "none");
      assertEquals((await machine.failure("whoami")).code, "CLI_INSECURE_URL");
      assertEquals((await machine.svc("profile", "set", "insecure", PLAIN)).code, 0);
      assertEquals((await machine.svc("whoami")).code, 0);
    });
  }
});

Deno.test("--ca is needed once: a copy is trusted by each later command, and named by none", async () => {
  await using admin = await Machine.open(undefined, { env: { SVC_BOOTSTRAP_SECRET: BOOTSTRAP_SECRET } });
  admin.write("company.pem", PEM);
  const made = await admin.svc("admin", "bootstrap", "--agent", "alpha", "--ca", admin.path("company.pem"));
  assertEquals(made.code, 0, made.stderr);
  assert(!made.stderr.includes("--ca"), made.stderr);
  assertEquals([profile(admin).ca, admin.read("ca.pem")], ["ca.pem", PEM]);
  Deno.removeSync(admin.path("company.pem"));
  admin.trusted.length = 0;
  await admin.json("whoami");
  assertEquals(admin.trusted, [PEM]);
  assertEquals((await admin.json("profile", "show")).ca, admin.path("ca.pem"));
  assertEquals((await admin.svc("profile", "set", "ca", "none")).code, 0);
  admin.trusted.length = 0;
  await admin.json("whoami");
  assertEquals(admin.trusted, []);
  Deno.writeTextFileSync(admin.path("other.pem"), "no certificate");
  await admin.refuses(["profile", "set", "ca", admin.path("other.pem")], 2, "CLI_USAGE");
});

Deno.test("a profile is a folder of its own, which option or variable choose and printed commands name", async () => {
  await using machine = await bootstrapped();
  await machine.json("agent", "create", "alpha");
  const { joinLink } = await machine.json("invite", "create");
  const joined = await machine.svc("join", joinLink, "--display-name", "Work", "--agent", "beta", "--profile", "work");
  assertEquals(joined.code, 0, joined.stderr);
  assertStringIncludes(joined.stderr, "svc connector start beta --profile work");
  assertEquals(JSON.parse(machine.read("profiles/work/config.json")).proxyUrl, PROXY_URL);
  assertEquals((await machine.json("agent", "inspect", "beta", "--profile", "work")).name, "beta");
  const fix = "Run svc --profile work agent list to see";
  await machine.refuses(["agent", "inspect", "bta", "--profile", "work"], 4, "CLI_AGENT_UNKNOWN", fix);
  const { profiles } = await machine.json("profile", "list");
  const short = (rows: { name: string; humanName: string; agents: string[]; isCurrent: boolean }[]) =>
    rows.map(({ name, agents, isCurrent }) => [name, agents, isCurrent]);
  assertEquals(short(profiles), [["default", ["alpha"], true], ["work", ["beta"], false]]);

  machine.env.SVC_PROFILE = "work";
  assertEquals((await machine.json("whoami")).human.displayName, "Work");
  assertEquals((await machine.json("profile", "show")).name, "work");
  assertEquals((await machine.json("profile", "show", "--profile", "default")).name, "default");
  const typo = await machine.failure("profile", "show", "--profile", "wrok");
  assertEquals([typo.exit, typo.message.includes("There is no profile wrok. Did you mean work?")], [2, true]);
  // Units and entries of hosts name the folder: a variable of the shell must not lead below it.
  assertEquals((await machine.json("profile", "show", "--config-dir", machine.dir)).folder, machine.dir);
  for (const name of ["Work", "a/b", "..", "a".repeat(33)]) {
    assertEquals((await machine.failure("whoami", "--profile", name)).exit, 2, name);
  }
});

Deno.test("a file in place of the folder of the profiles counts as no profiles", async () => {
  await using machine = await Machine.open();
  machine.write("profiles", "");
  assertEquals((await machine.json("profile", "list")).profiles.map(({ name }: { name: string }) => name), ["default"]);
});

Deno.test("a damaged profile is named and never overwritten", async (t) => {
  await using world = await World.open();
  const rows = [
    "",
    "[]",
    "{}",
    `{"version":2}`,
    `{"version":1,"ca":"../x"}`,
    `{"version":1,"insecureOrigins":["http://a/b"]}`,
    `{"version":1,"historyDays":-1}`,
    `{"version":1,"notify":"loud"}`,
  ];
  for (const text of rows) {
    await t.step(text, async () => {
      await using machine = await Machine.ofPerson(world);
      machine.write("profile.json", text);
      assertEquals((await machine.failure("whoami")).code, "CLI_FILE_INVALID");
      // The server trusts no profile; it only lacks its program in this test.
      assertNotEquals((await machine.failure("serve")).code, "CLI_FILE_INVALID");
      for (const words of [["explain", "CLI_USAGE"], ["profile", "list"]]) {
        assertEquals((await machine.svc(...words)).code, 0, words.join(" "));
      }
      assertEquals(machine.read("profile.json"), text);
    });
  }
});

Deno.test("the command that removes a damaged profile works when it is pasted, in any folder", async () => {
  await using machine = await Machine.open();
  machine.env.SVC_CONFIG_DIR = machine.path("Ada's $HOME");
  machine.write("note", "of the person");
  await Deno.mkdir(machine.env.SVC_CONFIG_DIR);
  machine.write("Ada's $HOME/profile.json", "[]");
  const { message } = await machine.failure("whoami");
  const command = /svc profile set: (rm .*)$/.exec(message)?.[1] ?? "";
  const { code } = await new Deno.Command("sh", { args: ["-c", command] }).output();
  assertEquals([code, Object.keys(machine.tree()).sort()], [0, ["Ada's $HOME/", "note"]]);
});

Deno.test("texts are kept for the days that are set, and a lost authority can be given up", async () => {
  await using machine = await Machine.ofPerson();
  for (const days of [0, 1, 30, 365]) {
    assertEquals((await machine.svc("profile", "set", "historyDays", String(days))).code, 0);
    assertEquals((await machine.json("profile", "show")).historyDays, days);
    const { stdout } = await machine.svc("profile", "show");
    assertStringIncludes(stdout, `texts kept        ${days} ${days === 1 ? "day" : "days"}\n`);
  }
  for (const text of ["366", "-1", "7.5", "none", ""]) {
    assertEquals((await machine.failure("profile", "set", "historyDays", "--", text)).code, "CLI_USAGE", text);
  }
  machine.write("profile.json", `{"version":1,"ca":"ca.pem"}`);
  assertEquals((await machine.failure("whoami")).code, "CLI_FILE_INVALID");
  assertEquals((await machine.svc("profile", "set", "ca", "none")).code, 0);
  assertEquals((await machine.svc("whoami")).code, 0);
});

Deno.test("how a person is told of messages is set once, and a wrong word names the right ones", async () => {
  await using machine = await Machine.ofPerson();
  assertEquals((await machine.json("profile", "show")).notify, NOTIFY[1]);
  for (const how of NOTIFY) {
    await machine.json("profile", "set", "notify", how);
    assertEquals((await machine.json("profile", "show")).notify, how);
  }
  await machine.refuses(["profile", "set", "notify", "loud"], 2, "CLI_USAGE", NOTIFY.join(", "));
  assertEquals((await machine.json("profile", "show")).notify, NOTIFY.at(-1));
});

Deno.test("no command needs --ca or --allow-insecure after the one that saved them", async () => {
  await using machine = await bootstrapped();
  Object.assign(machine.env, { HOME: machine.path("home"), PATH: "" });
  for (const name of ["alpha", "other"]) await machine.json("agent", "create", name);
  const { internalService: { id } } = await machine.json("admin", "service", "create", "extra");
  await using plain = await plainMachine(machine.world);
  let requests = 0;
  machine.fetch = ((input: RequestInfo | URL, init?: RequestInit) => {
    requests++;
    return plain.fetch(input, init);
  }) as typeof fetch;
  machine.env.SVC_REGISTRY_URL = "";
  machine.write("pem", PEM);
  for (const key of ["registryUrl", "proxyUrl"]) {
    await machine.json("config", "set", key, PLAIN, "--allow-insecure", "--ca", machine.path("pem"));
  }
  const names = { agent: "other", service: id, humanName: "Ada", path: (file: string) => machine.path(file) };
  // These name another server, or end the trust.
  const isOther = ([first, , third]: string[]) => first === "join" || first === "profile" && third === "ca";
  const calling = new Set<string>();
  for (const argv of [...everyList("other"), ...everyCommand(names)].filter((argv) => !isOther(argv))) {
    const line = argv.join(" ");
    machine.trusted.length = requests = 0;
    const { stdout, stderr } = await machine.svc(...argv, "--json");
    assert(!/CLI_INSECURE_URL|CLI_TLS_REFUSED|--allow-insecure|--ca/.test(stdout + stderr), `${line}\n${stderr}`);
    if (requests === 0) continue;
    calling.add(line);
    assert(machine.trusted.includes(PEM), `${line} does not trust the saved authority`);
  }
  assert(calling.size > 40, `${calling.size}\n${[...calling].join("\n")}`);
});
