/**
 * The keyboard of a terminal: keys without Enter and without echo, and bracketed paste. The terminal gets its earlier
 * state back when the process ends, except by SIGKILL, and by SIGHUP, after which the terminal is usually gone. SIGHUP
 * has no listener, because one would cancel the effect of nohup. key_decoder.ts turns the bytes into keys.
 */

export interface Keyboard {
  /** True when this process is in the foreground of its terminal, `null` when the system does not say. */
  isInForeground(): Promise<boolean | null>;
  /**
   * Passes on the bytes of each key or paste, from now on. Ctrl-C still interrupts.
   *
   * @param onQuit called for Ctrl-\
   * @returns an idempotent function that restores the terminal
   */
  open(onBytes: (bytes: Uint8Array) => void, onQuit: () => void): () => void;
}

const BRACKETED_PASTE = { on: "\x1b[?2004h", off: "\x1b[?2004l" };
const READ_BYTES = 4096;

/**
 * The keyboard of this process; `null` unless standard input and output are terminals.
 *
 * @param run returns what a program prints. It is called for `ps`, because Deno has no call for the process group in
 *   the foreground of the terminal, and may read /proc only with all permissions
 */
export function systemKeyboard(run: (program: string, args: string[]) => Promise<string | null>): Keyboard | null {
  if (!Deno.stdin.isTerminal() || !Deno.stdout.isTerminal()) return null;
  const isInForeground = async () =>
    foregroundOf(await run("ps", ["-o", "pgid=", "-o", "tpgid=", "-p", String(Deno.pid)]) ?? "");
  return { isInForeground, open };
}

function open(onBytes: (bytes: Uint8Array) => void, onQuit: () => void): () => void {
  let isOpen = true;
  const hasSignals = Deno.build.os !== "windows";
  const write = (text: string) => Deno.stdout.writeSync(new TextEncoder().encode(text));
  const begin = () => {
    Deno.stdin.setRaw(true, { cbreak: hasSignals });
    write(BRACKETED_PASTE.on);
  };
  const restore = () => {
    if (!isOpen) return;
    isOpen = false;
    for (const event of ["unload", "error"]) globalThis.removeEventListener(event, restore);
    if (hasSignals) Deno.removeSignalListener("SIGQUIT", onQuit);
    if (hasSignals) Deno.removeSignalListener("SIGCONT", begin);
    try {
      Deno.stdin.setRaw(false);
      write(BRACKETED_PASTE.off);
    } catch {
      // The terminal is closed, so there is nothing to restore.
    }
  };
  // Without this listener the signal would end the process and leave the terminal without echo.
  if (hasSignals) Deno.addSignalListener("SIGQUIT", onQuit);
  // `unload` comes at the end of the process, `error` at an exception that ends it.
  for (const event of ["unload", "error"]) globalThis.addEventListener(event, restore);
  begin();
  // At Ctrl-Z the shell gives the terminal its own state, which `fg` keeps, so that keys would wait for Enter.
  if (hasSignals) Deno.addSignalListener("SIGCONT", begin);
  const read = async () => {
    const buffer = new Uint8Array(READ_BYTES);
    while (isOpen) {
      const length = await Deno.stdin.read(buffer);
      if (length === null) return;
      if (isOpen) onBytes(buffer.slice(0, length));
    }
  };
  // Reading fails when the terminal is closed. Nothing handles the error, because a signal then ends the process.
  void read().catch(() => {});
  return restore;
}

/** Returns whether the two numbers that `ps` printed, process group and foreground group, are equal. */
export function foregroundOf(printed: string): boolean | null {
  const [, group, foreground] = /^\s*(\d+)\s+(-?\d+)\s*$/.exec(printed) ?? [];
  return group === undefined ? null : group === foreground;
}
