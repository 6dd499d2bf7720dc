/** What a command prints, as texts. */
export function recordedTerminal(isTerminal = false) {
  const seen = { stdout: "", stderr: "" };
  const terminal = {
    stdout: (text: string) => (seen.stdout += text, true),
    stderr: (text: string) => void (seen.stderr += text),
    stdoutIsTerminal: isTerminal,
    stderrIsTerminal: isTerminal,
  };
  return { seen, terminal };
}
