/**
 * The checks of `deno task check` that follow format and lint. They run at the same time, and each one runs although
 * another fails, so that one run shows every fault.
 *
 *   deno run -A tests/tools/check.ts
 */
const CHECKS: readonly (readonly string[])[] = [
  ["run", "-A", "tests/tools/types.ts"],
  ["run", "--no-prompt", "--allow-read=.", "tests/tools/check_deps.ts"],
  ["run", "--no-prompt", "--allow-read=.", "tests/tools/check_prose.ts"],
  ["run", "--no-prompt", "--allow-read=.", "tests/tools/gen.ts", "--check"],
  // A test, because only `deno test` has the parser that finds the comments.
  ["test", "--no-check", "--reporter=dot", "--allow-read", "tests/tools/citations_test.ts", "tests/tools/docs_test.ts"],
];

const results = await Promise.all(CHECKS.map(async ([command = "", ...args]) => {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args: [command, "--quiet", ...args] })
    .output();
  const text = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes).trim()).filter(Boolean).join("\n");
  console.log(text);
  return success;
}));
if (results.includes(false)) Deno.exit(1);
