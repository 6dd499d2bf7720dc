/** How often a test that kills at random moments tries: `-- --trials n` says it, else the number given. */
export function trials(usual: number): number {
  const at = Deno.args.indexOf("--trials");
  const said = at === -1 ? NaN : Number(Deno.args[at + 1]);
  return Number.isSafeInteger(said) && said > 0 ? said : usual;
}
