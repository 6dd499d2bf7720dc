/** Prints each step of the demo when it ends, or with `--json` all at the end. Ends a step that is interrupted. */
import { settledWithin } from "../../shared/clock.ts";
import type { Context } from "../context.ts";

/** Longest wait for the work of an interrupted step, in milliseconds. With more, Ctrl-C would seem to do nothing. */
const SETTLE_MS = 5_000;

export interface Step<T> {
  /** What a reader learns from the step. */
  proves: string;
  run: () => Promise<T>;
  shows: (result: T) => string[];
}

export class Story {
  readonly #done: { step: string; proves: string; ms: number }[] = [];
  /** The work of the newest step. */
  #work: Promise<unknown> = Promise.resolve();

  /** @param interrupted rejects on Ctrl-C */
  constructor(private readonly ctx: Context, private readonly interrupted: Promise<never>) {}

  /** Runs a step. @throws the error of its work, or of the interruption */
  async step<T>(title: string, { proves, run, shows }: Step<T>): Promise<T> {
    const { clock, out } = this.ctx;
    const began = clock.now();
    let result: T;
    try {
      const work = run();
      this.#work = work;
      // The interruption is first in the race, because a step whose work is already done would otherwise ignore it.
      result = await Promise.race([this.interrupted, work]);
    } catch (error) {
      out.note("");
      out.note(`${out.red("✘")} ${title}`);
      throw error;
    }
    const ms = clock.now() - began;
    this.#done.push({ step: title, proves, ms });
    if (out.json) return result;
    out.result({}, [
      "",
      `${out.green("✔")} ${out.bold(title)}  (${ms} ms)`,
      `    ${out.dim(proves)}`,
      ...shows(result).map((line) => `    ${line}`),
    ]);
    return result;
  }

  /** Waits for the work of an interrupted step, because it could otherwise write files after the folder is removed. */
  async settle(): Promise<void> {
    await settledWithin(this.ctx.clock, this.#work, SETTLE_MS);
  }

  end(ms: number, code: string): void {
    const seconds = (ms / 1000).toFixed(1);
    const last = `Done in ${seconds} s. The message of the revoked agent was refused with ${code}.`;
    this.ctx.out.result({ steps: this.#done, seconds: Number(seconds), refusal: code }, ["", last]);
  }
}
