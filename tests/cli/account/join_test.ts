/**
 * `svc join`: one link gives an account, its configuration and an agent. A refused link leaves the invite unused, and
 * its code is in no request before the one that redeems it.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { BOOTSTRAP_SECRET, PROXY_URL, REGISTRY_URL } from "../../support/world.ts";
import { bootstrapped, Machine } from "../cli_world.ts";

/** An invite of the admin. */
async function invited(admin: Machine): Promise<{ link: string; code: string; id: string }> {
  const { invite, joinLink } = await admin.json("invite", "create");
  return { link: joinLink, code: invite.code, id: invite.id };
}

/** Whether an invite can still be redeemed. */
async function isUnused(admin: Machine, id: string): Promise<boolean> {
  const { invites } = await admin.json("invite", "list");
  return invites.find((one: { id: string }) => one.id === id).status === "unused";
}

/** Everything that a machine sends: address, headers and body of each request. */
function recorded(machine: Machine): string[] {
  const sent: string[] = [];
  const { fetch } = machine;
  machine.fetch = async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = new Request(input, init);
    const headers = JSON.stringify([...request.headers]);
    sent.push(`${request.method} ${request.url} ${headers} ${await request.clone().text()}`);
    return await fetch(request);
  };
  return sent;
}

Deno.test("join turns the printed line into an account, its configuration and an agent", async () => {
  await using admin = await bootstrapped();
  await using machine = await Machine.open(admin.world);
  const { invite, joinLink } = await admin.json("invite", "create");
  assertEquals(joinLink, `${REGISTRY_URL}/join#${invite.code}`);
  const { stdout, stderr } = await admin.svc("invite", "create");
  const [code = ""] = /svc_inv_\S+/.exec(stdout) ?? [];
  assertStringIncludes(stderr, `svc join '${REGISTRY_URL}/join#${code}'\n`);

  const sent = recorded(machine);
  const joined = await machine.json("join", joinLink, "--display-name", "Bob", "--agent", "beta");
  assertEquals([joined.human.displayName, joined.agent.name], ["Bob", "beta"]);
  assertEquals(JSON.parse(machine.read("config.json")), {
    registryUrl: REGISTRY_URL,
    proxyUrl: PROXY_URL,
    apiKey: joined.apiKey.token,
    humanName: "Bob",
  });
  assertEquals((await machine.json("agent", "inspect", "beta")).ownerDid, joined.human.did);
  assertEquals((await machine.json("api-key", "list")).apiKeys.length, 1);

  // The code is in no request before the one that redeems it, and there only in the body.
  const at = sent.findIndex((text) => text.includes(invite.code));
  assertEquals(sent.slice(0, at).map((text) => text.split(" ", 2).join(" ")), [`GET ${REGISTRY_URL}/v1/metadata`]);
  const [redeem = ""] = sent.splice(at, 1);
  assert(redeem.startsWith(`POST ${REGISTRY_URL}/v1/invites/redeem [`));
  assertEquals(redeem.split(invite.code).length, 2);
  assert(redeem.includes(`"code":"${invite.code}"`));
  assert(!sent.join("\n").includes(invite.code));

  await using late = await Machine.open(admin.world);
  await late.refuses(["join", joinLink], 1, "INVITE_REDEEM_ALREADY_USED");
  assertEquals(Object.keys(late.tree()).sort(), [".account.lock", ".config.lock"]);
  assert(!JSON.stringify(admin.world.log).includes(invite.code), "the log of the server lacks the code");
});

Deno.test("join takes the link from standard input or from the environment", async () => {
  await using admin = await bootstrapped();
  await using piped = await Machine.open(admin.world);
  piped.stdin = `${(await invited(admin)).link}\n`;
  assertEquals((await piped.svc("join", "-")).code, 0);
  await using set = await Machine.open(admin.world, { env: { SVC_JOIN_LINK: (await invited(admin)).link } });
  assertEquals((await set.svc("join")).code, 0);
  await using none = await Machine.open(admin.world);
  await none.refuses(["join"], 2, "CLI_USAGE", "SVC_JOIN_LINK");
  const other = async (given: string) => (await none.failure("join", given)).message;
  assertStringIncludes(await other("svcpair1_a.b.c"), "To pair: run svc connector start <name>, then paste");
  assertStringIncludes(await other("svc_inv_x.a.b"), "it is an invite code alone. Give the whole link");
});

Deno.test("join leaves the invite unused and the folder unchanged when it refuses the link", async (t) => {
  await using admin = await bootstrapped();
  const { link, code, id } = await invited(admin);
  const metadata = (change: Record<string, string>) => (machine: Machine) =>
    machine.changeAnswers(/\/v1\/metadata$/, (body) => ({ ...body, ...change }));
  const rows: [name: string, exit: number, error: string, args: string[], prepare?: (m: Machine) => unknown][] = [
    ["another path", 2, "CLI_USAGE", [link.replace("/join", "/joins")]],
    ["a user name", 2, "CLI_USAGE", [link.replace("//", "//ada@")]],
    ["a query", 2, "CLI_USAGE", [link.replace("#", "?#")]],
    ["a code of another kind", 2, "CLI_USAGE", [link.replace("svc_inv_", "svc_pat_")]],
    ["a further word", 2, "CLI_USAGE", ["beta", link]],
    ["plain http to another machine", 2, "CLI_INSECURE_URL", [link.replace("https", "http")]],
    ["a display name with a line feed", 2, "CLI_USAGE", [link, "--display-name", "a\nb"]],
    ["an agent name with a slash", 2, "CLI_USAGE", [link, "--agent", "a/b"]],
    ["an agent that exists", 1, "CLI_AGENT_EXISTS", [link, "--agent", "beta"], (machine) => {
      Deno.mkdirSync(machine.path("agents/beta"), { recursive: true });
    }],
    ["an account of this registry", 1, "CLI_CONFIG_IN_USE", [link], (machine) => {
      machine.write("config.json", JSON.stringify({ registryUrl: REGISTRY_URL, apiKey: "svc_pat_old" }));
    }],
    ["an account of another registry", 1, "CLI_CONFIG_IN_USE", [link], (machine) => {
      machine.write("config.json", JSON.stringify({ registryUrl: "https://other.example", apiKey: "svc_pat_old" }));
    }],
    ["a damaged configuration", 1, "CLI_CONFIG_INVALID", [link], (machine) => machine.write("config.json", "{")],
    ["a registry with another address", 1, "CLI_REGISTRY_MISMATCH", [link], metadata({ registryUrl: PROXY_URL })],
    ["a registry with an unreadable address", 1, "CLI_REGISTRY_MISMATCH", [link], metadata({ registryUrl: "\u001b" })],
    ["a proxy with plain http", 2, "CLI_INSECURE_URL", [link], metadata({ proxyUrl: "http://proxy.example.test" })],
    ["a proxy whose address cannot be read", 2, "CLI_USAGE", [link], metadata({ proxyUrl: "ftp://proxy" })],
    ["a registry that does not answer", 5, "CLI_UNREACHABLE", [link], (machine) => {
      machine.fetch = () => Promise.reject(new TypeError("down"));
    }],
  ];
  for (const [name, exit, error, args, prepare] of rows) {
    await t.step(name, async () => {
      await using machine = await Machine.open(admin.world);
      await prepare?.(machine);
      const before = machine.tree();
      const sent = recorded(machine);
      const { code: ended, stdout, stderr } = await machine.svc("join", ...args, "--json");
      assertEquals([ended, JSON.parse(stderr).error.code], [exit, error], stderr);
      const secret = code.slice("svc_inv_".length);
      assert(!(stdout + stderr + sent.join("\n")).includes(secret), stderr);
      assert(sent.every((text) => text.startsWith(`GET ${REGISTRY_URL}/v1/metadata `)), sent.join("\n"));
      assertEquals(machine.tree(), before);
    });
  }
  assert(await isUnused(admin, id));
});

Deno.test("join with --replace replaces the account and sends its key nowhere", async () => {
  await using admin = await bootstrapped();
  await using machine = await Machine.open(admin.world);
  const { link } = await invited(admin);
  const old = `svc_pat_${"o".repeat(43)}`;
  machine.write("config.json", JSON.stringify({ registryUrl: "https://other.example", apiKey: old }));
  const sent = recorded(machine);
  const { code, stdout, stderr } = await machine.svc("join", link, "--replace", "--agent", "beta");
  assertEquals(code, 0, stderr);
  assert(!(stdout + stderr + sent.join("\n")).includes(old));
  assertStringIncludes(stderr, "svc_pat_oooo…");
  const { registryUrl, apiKey } = JSON.parse(machine.read("config.json"));
  assertEquals([registryUrl, stdout.includes(apiKey)], [REGISTRY_URL, true]);
});

Deno.test("join keeps the account and shows its key when the agent cannot be created", async () => {
  await using admin = await bootstrapped();
  await using machine = await Machine.open(admin.world);
  const restore = machine.answer(/\/v1\/agents$/, () => new Response(null, { status: 503 }));
  const { stdout, code } = await machine.failure("join", (await invited(admin)).link, "--agent", "beta");
  assertEquals(code, "HTTP_503");
  const { apiKey, agent } = JSON.parse(stdout);
  assertEquals([JSON.parse(machine.read("config.json")).apiKey, agent], [apiKey.token, undefined]);
  restore();
  assertEquals((await machine.json("agent", "create", "beta")).resumed, true);
});

Deno.test("join and invite redeem give the account when they run again after their answer was lost", async (t) => {
  await using admin = await bootstrapped();
  for (const command of ["join", "invite redeem"]) {
    await t.step(command, async () => {
      await using machine = await Machine.open(admin.world);
      await using other = await Machine.open(admin.world);
      const { link, code } = await invited(admin);
      const words = [...command.split(" "), command === "join" ? link : code, "--display-name", "Bob"];
      const restore = machine.loseAnswers(/redeem$/, 1);
      const first = await machine.failure(...words);
      assertEquals(first.code, "CLI_UNREACHABLE");
      assertStringIncludes(first.message, "run the command again");
      restore();
      await other.refuses(words, 1, "INVITE_REDEEM_ALREADY_USED");
      const { human } = await machine.json(...words);
      assertEquals((await machine.json("whoami")).human.did, human.did);
      assert(!Object.keys(machine.tree()).includes(".redemption.secret"));
      await machine.refuses(["invite", "redeem", code], 1, "INVITE_REDEEM_ALREADY_USED");
    });
  }
  assertEquals((await admin.json("admin", "people", "list")).people.length, 3);
});

Deno.test("one of two machines joins when both use one link at the same time", async () => {
  await using admin = await bootstrapped();
  const { link } = await invited(admin);
  await using one = await Machine.open(admin.world);
  await using two = await Machine.open(admin.world);
  const ends = await Promise.all([one, two].map((machine) => machine.svc("join", link)));
  assertEquals(ends.map(({ code }) => code).sort(), [0, 1]);
});

Deno.test("of two joins at once in one folder, the second makes no account and leaves its invite unused", async () => {
  await using admin = await bootstrapped();
  await using machine = await Machine.open(admin.world);
  const { clock } = machine.world, after = clock.after.bind(clock);
  // Looks at the lock follow one another in real time, because nothing moves the clock while the first join holds it.
  clock.after = (ms, fn) => ms === 50 ? (setTimeout(fn, 5), () => {}) : after(ms, fn);
  const invites = [await invited(admin), await invited(admin)];
  const joins = invites.map(({ link }) => machine.svc("join", link, "--display-name", "Bob", "--agent", "beta"));
  const ends = await Promise.all(joins);
  assertEquals(ends.map(({ code }) => code).sort(), [0, 1]);
  const refused = ends.find(({ code }) => code === 1);
  assertStringIncludes(refused?.stderr ?? "", "CLI_CONFIG_IN_USE");
  const unused = await Promise.all(invites.map(({ id }) => isUnused(admin, id)));
  assertEquals(unused.filter((one) => one).length, 1);
  assertEquals((await admin.json("admin", "people", "list")).people.length, 2);
});

Deno.test("join warns when variables would replace what it has saved", async () => {
  await using admin = await bootstrapped();
  const env = { SVC_REGISTRY_URL: "https://other.example", SVC_API_KEY: "svc_pat_other" };
  await using machine = await Machine.open(admin.world, { env });
  const { warnings } = await machine.json("join", (await invited(admin)).link);
  assertEquals(warnings.length, 2);
  for (const [i, name] of Object.keys(env).entries()) assertStringIncludes(warnings[i], name);
});

Deno.test("on a terminal, bootstrap and join ask for the names that are missing, before anything is sent", async () => {
  await using admin = await Machine.open(undefined, { env: { SVC_BOOTSTRAP_SECRET: BOOTSTRAP_SECRET } });
  admin.types = ["Ada", "alpha"];
  assertEquals((await admin.svc("admin", "bootstrap")).code, 0);
  const questions = ["Your name, as others see it: ", "Name of your first agent (Enter: none): "];
  assertEquals([admin.asked, admin.types], [questions, []]);
  assertEquals((await admin.json("agent", "inspect", "alpha")).name, "alpha");
  assertEquals(JSON.parse(admin.read("config.json")).humanName, "Ada");

  const { link, id } = await invited(admin);
  await using machine = await Machine.open(admin.world);
  // A name that cannot be is asked for again; the third one ends the command with the invite unused.
  machine.types = ["Bob", "a/b", "a b", "-"];
  assertEquals([(await machine.svc("join", link)).code, machine.types], [2, []]);
  for (const types of [[null], ["Bob", null]]) {
    machine.types = types;
    assertEquals((await machine.svc("join", link)).code, 130);
  }
  assert(await isUnused(admin, id));
  machine.types = ["", "a/b", "beta"];
  assertEquals((await machine.svc("join", link)).code, 0);
  assertEquals((await machine.json("agent", "inspect", "beta")).name, "beta");

  await using other = await Machine.open(admin.world);
  // What starts its connector needs an agent, so the question does not offer to leave it out.
  other.types = ["Ci", "", "", ""];
  assertEquals((await other.svc("join", (await invited(admin)).link, "--start")).code, 2);
  assertEquals([other.asked.slice(1), other.types], [Array(3).fill("Name of your first agent: "), []]);
});

Deno.test("join without room for the files of the agent names the command that goes on, and it works", async () => {
  await using admin = await bootstrapped();
  await using machine = await Machine.open(admin.world);
  const taken = machine.path("agents/.beta.pending/public.key");
  for (const folder of ["agents", "agents/.beta.pending", "agents/.beta.pending/public.key"]) {
    await Deno.mkdir(machine.path(folder), { mode: 0o700 });
  }
  const { link } = await invited(admin);
  await machine.refuses(["join", link, "--agent", "beta"], 1, "CLI_SAVE_FAILED", "then run svc agent create beta.");
  await Deno.remove(taken, { recursive: true });
  assertEquals((await machine.json("agent", "create", "beta")).name, "beta");
});

Deno.test("a secret from a terminal's standard input says how it ends", async () => {
  await using machine = await Machine.open();
  machine.stdin = null;
  assertStringIncludes((await machine.svc("join", "-")).stderr, "Paste <link> here, then press Enter and Ctrl-D.");
});

Deno.test("bootstrap takes both names as options, and says in JSON what it made", async () => {
  await using admin = await Machine.open(undefined, { env: { SVC_BOOTSTRAP_SECRET: BOOTSTRAP_SECRET } });
  admin.types = [];
  const { human, agent } = await admin.json("admin", "bootstrap", "--display-name", "Ada", "--agent", "alpha");
  assertEquals([human.displayName, agent.name, admin.asked], ["Ada", "alpha", []]);
});

Deno.test("join and invite redeem check that they can save before the invite is spent", async () => {
  await using admin = await bootstrapped();
  const { link, code, id } = await invited(admin);
  await using machine = await Machine.open(admin.world);
  Deno.mkdirSync(machine.path("config.json"));
  for (const args of [["join", link], ["invite", "redeem", code]]) {
    assertEquals((await machine.failure(...args)).code, "CLI_SAVE_FAILED", args[0]);
  }
  assert(await isUnused(admin, id));
});

Deno.test("after a join that was cut off at its agent, join names the command that completes it", async () => {
  await using admin = await bootstrapped();
  const { link } = await invited(admin);
  await using machine = await Machine.open(admin.world);
  const restore = machine.loseAnswers(/\/v1\/agents$/);
  assertEquals((await machine.svc("join", link, "--agent", "beta")).code, 5);
  restore();
  await machine.refuses(["join", link, "--agent", "beta"], 1, "CLI_CONFIG_IN_USE", "svc agent create beta.");
  await machine.json("agent", "create", "beta");
  assertEquals((await machine.json("agent", "list")).agents.length, 1);
  await machine.refuses(["join", link, "--agent", "gamma"], 1, "CLI_CONFIG_IN_USE", "svc agent create <new>");
  // The name of the agent that is there would name a profile after it, or be refused.
  assertStringIncludes((await machine.failure("join", link)).message, "Add --profile <profile> for another account");
  assertStringIncludes((await machine.failure("join", link, "--replace", "--start")).message, "Add --agent <new>.");
  const pairing = ["join", `${link}.AAECAwQFBgcICQoLDA0ODw.-`, "--agent", "beta"];
  await machine.refuses(pairing, 1, "CLI_CONFIG_IN_USE", "the other person presses p");
});
