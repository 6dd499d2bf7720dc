/** Number of rounds of a test with random timing: `-- --trials n`, else the given number. */
export function trials(usual: number): number {
  const at = Deno.args.indexOf("--trials");
  const said = at === -1 ? NaN : Number(Deno.args[at + 1]);
  return Number.isSafeInteger(said) && said > 0 ? said : usual;
}
