/** agent auth refresh: one at a time, and no session is lost at any interruption (D-83, D-44). Decisions: D-24. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { CliError } from "../../../cli/errors.ts";
import { withLock } from "../../../cli/files/lock.ts";
import { fromBase64Url, sha256 } from "../../../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { until } from "../../support/until.ts";
import { REGISTRY_URL, World } from "../../support/world.ts";
import { AUTH, authOf, MARKER, whileTimePasses, withAlpha, works } from "../alpha.ts";
import { Machine } from "../cli_world.ts";

const REFRESH = /\/refresh$/;

Deno.test("agent auth refresh replaces both tokens and leaves no marker", async () => {
  await using machine = await withAlpha();
  const before = authOf(machine);
  assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "refreshed");
  const after = authOf(machine);
  assert(before.accessToken !== after.accessToken && before.refreshToken !== after.refreshToken);
  assert(await works(machine));
  assert(!(MARKER in machine.tree()));
  const shown = await machine.svc("agent", "auth", "refresh", "alpha");
  const { accessToken, refreshToken } = authOf(machine);
  for (const token of [accessToken, refreshToken]) assert(!shown.stdout.includes(token));
});

Deno.test("the next refresh recovers a refresh whose answer was lost, with one live token pair after it", async () => {
  await using machine = await withAlpha();
  const before = authOf(machine);
  for (const times of [1, 2, 3]) {
    machine.loseAnswers(REFRESH);
    for (let i = 0; i < times; i++) {
      machine.world.clock.step(1_000);
      assertEquals((await machine.failure("agent", "auth", "refresh", "alpha")).exit, 5);
    }
    assertEquals(machine.read(MARKER).trim(), await sha256(authOf(machine).refreshToken));
    machine.fetch = machine.world.fetch;
    machine.world.clock.step(1_000);
    assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "recovered");
    assert(await works(machine) && !(MARKER in machine.tree()));
  }
  const { privateKey } = await keyPairFromSeed(fromBase64Url(machine.read("agents/alpha/secret.key").trim())!);
  const old = { ait: machine.read("agents/alpha/ait.jwt").trim(), privateKey };
  const refused = await machine.world.client.refresh(old, before.refreshToken).catch((error) => error.code);
  assertEquals(refused, "AGENT_AUTH_REFRESH_INVALID");
});

Deno.test("a recovery in the same second as the lost refresh waits a second and signs again", async () => {
  await using machine = await withAlpha();
  machine.loseAnswers(REFRESH);
  await machine.failure("agent", "auth", "refresh", "alpha");
  machine.fetch = machine.world.fetch;
  const began = machine.world.clock.now(), sent = () => machine.requests.filter((to) => to.endsWith("/refresh")).length;
  const recovery = machine.svc("agent", "auth", "refresh", "alpha");
  // It signs before the clock moves on, because a signature of the next second would be taken at once.
  await until(() => sent() === 2);
  const { code, stderr } = await whileTimePasses(machine.world, recovery);
  assertEquals(code, 0, stderr);
  assert(machine.world.clock.now() - began >= 1_000);
  assertEquals(sent(), 3);
});

Deno.test("a refresh that never arrived is sent again and succeeds", async () => {
  await using machine = await withAlpha();
  machine.fetch = () => Promise.reject(new TypeError("connection reset"));
  assertEquals((await machine.failure("agent", "auth", "refresh", "alpha")).exit, 5);
  machine.fetch = machine.world.fetch;
  await machine.json("agent", "auth", "refresh", "alpha");
  assert(await works(machine));
});

Deno.test("a marker of a refresh whose answer was saved does not start a recovery", async () => {
  await using machine = await withAlpha();
  machine.write(MARKER, await sha256("svc_rft_of_before"));
  assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "refreshed");
  assert(!(MARKER in machine.tree()));
});

Deno.test("invalid text in the marker counts as a refresh in progress", async (t) => {
  for (const rubbish of ["", "\u0000\u0001", "{}", "x".repeat(70_000)]) {
    await t.step(`${rubbish.length} characters`, async () => {
      await using machine = await withAlpha();
      machine.loseAnswers(REFRESH);
      await machine.failure("agent", "auth", "refresh", "alpha");
      machine.fetch = machine.world.fetch;
      machine.world.clock.step(1_000);
      machine.write(MARKER, rubbish);
      await machine.json("agent", "auth", "refresh", "alpha");
      assert(await works(machine));
    });
  }
});

Deno.test("a refresh of a session that has ended leaves the files unchanged", async () => {
  await using machine = await withAlpha();
  await machine.json("agent", "auth", "revoke", "alpha");
  const before = machine.tree();
  await machine.refuses(["agent", "auth", "refresh", "alpha"], 3, "AGENT_AUTH_REFRESH_REVOKED", "svc agent reissue");
  assertEquals(machine.tree(), before);
  await machine.json("agent", "reissue", "alpha");
  machine.world.clock.step(1_000);
  assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "refreshed");
});

Deno.test("a refresh that was sent twice and lost its first answer is recovered", async () => {
  await using machine = await withAlpha();
  machine.fetch = async (input, init) => {
    await (await machine.world.fetch(input, init)).body?.cancel();
    return await machine.world.fetch(input, init);
  };
  assertEquals((await machine.failure("agent", "auth", "refresh", "alpha")).code, "AGENT_AUTH_REFRESH_UNAUTHORIZED");
  machine.fetch = machine.world.fetch;
  machine.world.clock.step(1_000);
  assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "recovered");
  assert(await works(machine));
});

Deno.test("a refused recovery keeps the marker of the refresh before it", async () => {
  await using machine = await withAlpha();
  machine.loseAnswers(REFRESH);
  await machine.failure("agent", "auth", "refresh", "alpha");
  machine.fetch = machine.world.fetch;
  machine.world.clock.step(-400_000);
  machine.fetch = async (input, init) => {
    machine.world.clock.step(400_000);
    const response = await machine.world.fetch(input, init);
    machine.world.clock.step(-400_000);
    return response;
  };
  assertEquals((await machine.failure("agent", "auth", "refresh", "alpha")).code, "AGENT_AUTH_REFRESH_UNAUTHORIZED");
  machine.fetch = machine.world.fetch;
  machine.world.clock.step(402_000);
  assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "recovered");
});

Deno.test("one of many concurrent refreshes sends a request, and the others use its result", async () => {
  await using machine = await withAlpha();
  const { fetch } = machine, { clock } = machine.world;
  for (let round = 0; round < 3; round++) {
    const sent = machine.requests.length, haveRead = Promise.withResolvers<void>();
    machine.fetch = async (input, init) => {
      await haveRead.promise;
      return await fetch(input, init);
    };
    const all = Promise.all(Array.from({ length: 5 }, () => machine.json("agent", "auth", "refresh", "alpha")));
    // A command that begins after the answer refreshes again, so the answer comes when the others wait for the lock.
    await until(() => clock.pending().split("\n").filter((timer) => timer.startsWith("+50 ms")).length === 4);
    haveRead.resolve();
    const outcomes = await whileTimePasses(machine.world, all);
    const how = outcomes.map((outcome) => outcome.how).sort();
    assertEquals(how, ["refreshed", "shared", "shared", "shared", "shared"]);
    assertEquals(machine.requests.length - sent, 1);
    assertEquals(new Set(outcomes.map(({ accessExpiresAt }) => accessExpiresAt)).size, 1);
    assert(await works(machine));
  }
});

Deno.test("a refresh sends nothing without a marker, and the next one recovers an unsaved answer", async (t) => {
  await t.step("the marker cannot be written", async () => {
    await using machine = await withAlpha();
    const before = authOf(machine);
    await Deno.mkdir(machine.path(`${MARKER}/x`), { recursive: true });
    const sent = machine.requests.length;
    assertEquals((await machine.svc("agent", "auth", "refresh", "alpha")).code, 1);
    assertEquals([authOf(machine), machine.requests.length], [before, sent]);
  });
  await t.step("the answer cannot be saved", async () => {
    await using machine = await withAlpha();
    const text = machine.read(AUTH);
    machine.fetch = async (input, init) => {
      const response = await machine.world.fetch(input, init);
      // A folder in its place: the rename fails as it does on a full or read-only disk.
      await Deno.remove(machine.path(AUTH));
      await Deno.mkdir(machine.path(`${AUTH}/x`), { recursive: true });
      return response;
    };
    const next = "run svc agent auth refresh alpha to recover them";
    await machine.refuses(["agent", "auth", "refresh", "alpha"], 1, "CLI_SAVE_FAILED", next);
    machine.fetch = machine.world.fetch;
    await Deno.remove(machine.path(AUTH), { recursive: true });
    machine.write(AUTH, text);
    assertEquals(Object.keys(machine.tree()).filter((path) => path.includes(".tmp")), []);
    machine.world.clock.step(1_000);
    assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "recovered");
    assert(await works(machine));
  });
});

Deno.test("damaged files of an agent are named, and no request is sent", async (t) => {
  for (const file of ["secret.key", "ait.jwt", "identity.json", "registry-auth.json"]) {
    for (const content of [null, "", "rubbish", "{}"]) {
      if (file === "ait.jwt" && content !== null) continue;
      await t.step(`${file}: ${content}`, async () => {
        await using machine = await withAlpha();
        const path = `agents/alpha/${file}`;
        if (content === null) await Deno.remove(machine.path(path));
        else machine.write(path, content);
        const sent = machine.requests.length;
        await machine.refuses(["agent", "auth", "refresh", "alpha"], 1, "CLI_FILE_INVALID", file);
        assertEquals(machine.requests.length, sent);
      });
    }
  }
});

Deno.test("a wrong clock is reported with its offset and the service's time", async (t) => {
  for (
    const [offset, words] of [[-600_000, "10 min 0 s behind the service's"], [
      600_000,
      "10 min 0 s ahead of the service's",
    ]] as const
  ) {
    await t.step(words, async () => {
      await using machine = await withAlpha();
      const right = machine.world.clock.now();
      machine.fetch = async (input, init) => {
        machine.world.clock.step(-offset);
        const response = await machine.world.fetch(input, init);
        response.headers.set("Date", new Date(machine.world.clock.now()).toUTCString());
        machine.world.clock.step(offset);
        return response;
      };
      machine.world.clock.step(offset);
      const { exit, message } = await machine.failure("agent", "auth", "refresh", "alpha");
      assertEquals(exit, 3);
      assertStringIncludes(message, words);
      assertStringIncludes(message, "Correct the one that is wrong");
      assertStringIncludes(message, new Date(Math.floor(right / 1000) * 1000).toISOString());
      const text = await machine.svc("agent", "auth", "refresh", "alpha");
      assertStringIncludes(text.stderr, words);
      const listed = await machine.json("agent", "list");
      assertStringIncludes(listed.warnings[0], words);
      if (offset > 0) return;
      // A new token would be refused in the same way.
      const refused = await machine.refuses(["agent", "inspect", "alpha"], 1, "CLI_TOKEN_REFUSED", words);
      assert(!refused.includes("reissue"), refused);
    });
  }
});

Deno.test("a refresh goes to the agent's own registry and ignores the configured one", async () => {
  await using machine = await withAlpha();
  machine.env.SVC_REGISTRY_URL = "https://other.example";
  assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "refreshed");
  const elsewhere = ["agent", "auth", "refresh", "alpha", "--registry-url", "https://other.example"];
  await machine.refuses(elsewhere, 5, "CLI_UNREACHABLE");
});

Deno.test("a proof names the registry's public origin when another address is dialled", async () => {
  await using world = await World.open();
  await using machine = await Machine.ofPerson(world, { env: { SVC_REGISTRY_URL: "https://inside.example" } });
  machine.fetch = (input, init) => world.fetch(String(input).replace("https://inside.example", REGISTRY_URL), init);
  await machine.json("agent", "create", "alpha");
  world.clock.step(2_000);
  assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "refreshed");
  assertEquals((await machine.json("agent", "inspect", "alpha")).verified, true);
});

Deno.test("a lock of a living process is waited for, and named when it stays", async () => {
  await using machine = await withAlpha();
  const lock = await Deno.open(machine.path("agents/alpha/agent.lock"), { read: true, write: true, create: true });
  await lock.lock(true);
  const after = machine.world.clock.after.bind(machine.world.clock);
  // The waits between two looks at the lock pass at once, because 2,400 of them would take seconds.
  machine.world.clock.after = (ms, fn) => ms === 50 ? (queueMicrotask(fn), () => {}) : after(ms, fn);
  const { code, stderr } = await machine.svc("--json", "agent", "auth", "refresh", "alpha");
  lock.close();
  assertEquals(code, 1);
  assertEquals(JSON.parse(stderr).error.code, "CLI_BUSY");
  assertStringIncludes(stderr, String(Deno.pid));
});

Deno.test("a clock that is set back does not lengthen the wait for a lock", async () => {
  const path = await Deno.makeTempFile({ prefix: "svc_lock_" });
  using lock = await Deno.open(path, { read: true, write: true });
  await lock.lock(true);
  let looks = 0;
  // Each wait passes at once, and the clock goes back by an hour in between.
  const clock = {
    now: () => 0 - 3_600_000 * looks,
    uptime: () => 0,
    after: (_ms: number, fn: () => void) => {
      if (++looks > 10_000) throw new Error("the wait has no end");
      queueMicrotask(fn);
      return () => {};
    },
  };
  const work = () => withLock({ clock, pid: 1 }, () => path, () => Promise.resolve(), () => {}, 1_000);
  assertEquals((await assertRejects(work, CliError)).code, "CLI_BUSY");
  await Deno.remove(path);
});
