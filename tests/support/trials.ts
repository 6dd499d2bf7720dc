/** The long run, with `-- --trials n`: it tries every point where a process can be killed, and the compiled binary. */
export const IS_LONG: boolean = Deno.args.includes("--trials");

/**
 * `Deno.test` in the long run, else nothing: for what shorter tests prove in parts, because a gate that takes long is not run.
 */
export const longTest = (IS_LONG ? Deno.test : () => {}) as typeof Deno.test;

/** Number of rounds of a test with random timing: `-- --trials n`, else the given number. */
export function trials(usual: number): number {
  return saidNumber("--trials") ?? usual;
}

/** The seed of a test file with random moments, printed: that of `-- --seed n`, else a new one. */
export function printedSeed(): number {
  const seed = saidNumber("--seed") ?? Math.floor(Math.random() * 2 ** 31) + 1;
  console.log(`Its random moments are repeated with -- --seed ${seed}`);
  return seed;
}

/** A number of at least 1 behind a flag; `null` without one. */
function saidNumber(flag: string): number | null {
  const at = Deno.args.indexOf(flag);
  const said = at === -1 ? NaN : Number(Deno.args[at + 1]);
  return Number.isSafeInteger(said) && said > 0 ? said : null;
}
