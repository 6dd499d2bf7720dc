/** The notice of a newer server: once a day, on a terminal only. */
import { assertEquals } from "@std/assert";
import { isNewer } from "../../cli/newer_version.ts";
import { Machine } from "./cli_world.ts";

Deno.test("a person on a terminal reads once a day that the server is newer, and no program does", async () => {
  await using machine = await Machine.ofPerson(undefined, { isTerminal: true });
  let version = "0.3.0\u001b[2J";
  machine.changeAnswers(/^/, (body) => "version" in body ? { ...body, version } : body);
  const notice = async (...words: string[]) => {
    const { stderr } = await machine.svc("status", ...words);
    return stderr.split("\n").filter((line) => line.startsWith("The server runs svc"));
  };
  await machine.svc("config", "init");
  const text = "The server runs svc 0.3.0, this is 0.0.0-test. How to update: https://registry.example.test/join";
  assertEquals([await notice("--json"), await notice()], [[], []], "config init has shown it");
  machine.world.clock.step(24 * 3_600_000);
  machine.isTerminal = false;
  assertEquals(await notice(), []);
  machine.isTerminal = true;
  machine.env.SVC_NO_NOTICE = "1";
  assertEquals(await notice(), []);
  delete machine.env.SVC_NO_NOTICE;
  assertEquals([await notice(), await notice()], [[text], []]);
  machine.world.clock.step(24 * 3_600_000);
  version = "0.0.0";
  assertEquals(await notice(), []);
});

Deno.test("a version is newer by its three numbers; another text is not", () => {
  const newer = [["0.3.0", "0.2.1"], ["1.0.0", "0.9.9"], ["0.2.10", "0.2.9"], ["0.2.1-rc", "0.2.0"]] as const;
  for (const [version, than] of newer) assertEquals([isNewer(version, than), isNewer(than, version)], [true, false]);
  for (const text of ["", "1", "1.2", "a.b.c", "1.2.3.4", "9".repeat(20)]) assertEquals(isNewer(text, "0.0.0"), false);
  assertEquals(isNewer("0.2.1", "0.2.1"), false);
});
