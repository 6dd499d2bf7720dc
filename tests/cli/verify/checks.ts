/** The checks that `svc verify` and `svc receipt verify` print. */
export interface Check {
  name: string;
  result: string;
  detail: string;
}

const having = (result: string) => (checks: Check[]) =>
  checks.filter((check) => check.result === result).map(({ name }) => name);

export const failing = having("failed");
export const skipping = having("skipped");
