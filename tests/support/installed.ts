/** Looks for programs of the machine. */

/** Runs a program; true when it is there and succeeds. */
export async function succeeds(program: string, args: readonly string[]): Promise<boolean> {
  try {
    const { success } = await new Deno.Command(program, { args: [...args], stdout: "null", stderr: "null" }).output();
    return success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/**
 * Returns true if a program of the machine can be run. Otherwise prints one line: the tests that need it are skipped.
 *
 * @param probe arguments with which the program ends at once
 */
export async function isInstalled(program: string, probe = "--version"): Promise<boolean> {
  try {
    await new Deno.Command(program, { args: [probe], stdout: "null", stderr: "null" }).output();
    return true;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    console.log(`Tests with ${program} are skipped: it is not installed`);
    return false;
  }
}
