/** What a test does with `svc`, in the test's process (cli_world.ts) and as a process of its own (program.ts). */
import { assertEquals, assertStringIncludes } from "@std/assert";

/** The result of a command or a process. */
export interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs command lines with the configuration folder of one machine. */
export abstract class SvcRunner {
  /** The configuration folder. */
  abstract readonly dir: string;

  /** Runs a command line until it ends. */
  abstract svc(...argv: string[]): Promise<Outcome>;

  /** Runs a command that must succeed and returns its result. */
  // deno-lint-ignore no-explicit-any
  async json(...argv: string[]): Promise<any> {
    const { code, stdout, stderr } = await this.svc("--json", ...argv);
    assertEquals([code, stderr], [0, ""], `${argv.join(" ")}\n${stderr}`);
    return JSON.parse(stdout);
  }

  /** Runs a command that must fail and returns its exit code, error code and message. */
  async failure(...argv: string[]): Promise<{ exit: number; code: string; message: string; stdout: string }> {
    const { code: exit, stdout, stderr } = await this.svc("--json", ...argv);
    const { error } = JSON.parse(stderr) as { error: { code: string; message: string } };
    return { exit, ...error, stdout };
  }

  /** Runs a command that must fail with this exit code and error code. Returns the message, which has these parts. */
  async refuses(argv: readonly string[], exit: number, code: string, ...parts: string[]): Promise<string> {
    const { message, ...failure } = await this.failure(...argv);
    assertEquals([failure.exit, failure.code], [exit, code], `${argv.join(" ")}\n${message}`);
    for (const part of parts) assertStringIncludes(message, part);
    return message;
  }

  path(file: string): string {
    return `${this.dir}/${file}`;
  }

  read(file: string): string {
    return Deno.readTextFileSync(this.path(file));
  }
}
