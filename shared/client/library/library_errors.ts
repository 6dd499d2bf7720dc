/** The codes of the client library itself (D-138): condition and fix. Its other codes are those of services and command. */

interface LibraryErrorRow {
  when: string;
  fix: string;
}

export const LIBRARY_ERRORS = Object.freeze(
  {
    NO_REPLY: {
      when: "No reply to a question came in time, or the question was not processed",
      fix: "Ask again with a longer timeoutMs, or handle a late reply in onMessage.",
    },
    CONNECTOR_RUNNING: {
      when: "The agent's connector runs, so that Agent would take its messages",
      fix: "Use LocalAgent, or stop the connector.",
    },
    CONNECTOR_DOWN: {
      when: "The agent's connector does not run, or does not answer",
      fix: "Run svc connector start <name>; without a connector use Agent.",
    },
  } satisfies Record<string, LibraryErrorRow>,
);
export type LibraryCode = keyof typeof LIBRARY_ERRORS;
