/** Each claim of docs/security.md about the servers names an attack that tries it. A claim without one is only a hope. */
import { assert, assertEquals } from "@std/assert";
import { ROOT } from "../support/child_command.ts";
import { ANSWER_ATTACKS } from "../support/hostile_proxy.ts";
import { ATTACKS, WITHIN_THE_PROCESS } from "../support/hostile_rows.ts";

const HEADING = "## What holds against the servers";

/** The items of the lists, by party. */
function claims(): [party: string, claim: string][] {
  const text = Deno.readTextFileSync(`${ROOT}/docs/security.md`);
  const section = text.slice(text.indexOf(HEADING) + HEADING.length).split("\n## ")[0] ?? "";
  return section.split("\n### ").slice(1).flatMap((part) => {
    const [party = "", ...claims] = part.split("\n- ");
    return claims.map((claim): [string, string] => [party, claim]);
  });
}

Deno.test("each claim about what a server cannot do names an attack that is tried", () => {
  const found = claims();
  assert(found.length >= 30, `only ${found.length} claims`);
  for (const [party, claim] of found) {
    const named = [...claim.matchAll(/`([a-z_]+)`/g)].map(([, name = ""]) => name);
    assert(named.length > 0, `${party}: "${claim}" names no attack`);
    assertEquals(named.filter((name) => !ATTACKS.has(name)), [], `${party}: "${claim}"`);
  }
});

Deno.test("each attack on an answer of the proxy is tried", () => {
  const files = ["e2e/hostile_test.ts", "soak/hostile_relay_test.ts"];
  const text = files.map((file) => Deno.readTextFileSync(`${ROOT}/tests/${file}`)).join();
  assertEquals(Object.keys(ANSWER_ATTACKS).filter((name) => !text.includes(`"${name}"`)), []);
});

Deno.test("each attack within the process is a test that exists", () => {
  for (const [file, titles] of Object.entries(WITHIN_THE_PROCESS)) {
    const text = Deno.readTextFileSync(`${ROOT}/${file}`);
    for (const [name, title] of Object.entries(titles)) {
      assert(text.includes(`test("${title}"`), `${name}: ${file} has no test "${title}"`);
    }
  }
});
