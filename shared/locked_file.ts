/**
 * Ends the lock of a file and closes the file. Closing alone would leave the lock for a moment when this process is just
 * starting another program, because that has a copy of every open file until it runs.
 */
export function closeLocked(file: Deno.FsFile): void {
  try {
    file.unlockSync();
  } catch {
    // Windows refuses to unlock a file that is not locked.
  }
  file.close();
}
