/** An autostart service of the system (D-91): what is to run, and where each system keeps it. */

export const SERVICE_SYSTEMS = ["launchd", "systemd"] as const;
export type ServiceSystem = (typeof SERVICE_SYSTEMS)[number];

/** What a service runs. Holds no secret: others can read it. */
export interface ServiceSpec {
  agentName: string;
  /** Program and arguments. */
  command: readonly string[];
  /** Where launchd writes what the program prints. */
  logPath: string;
}

/** What a program did. */
export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

/** The machine as services see it; handed in. */
export interface Host {
  home: string;
  configHome: string;
  uid: number | null;
  /** Runs a program; `null` when there is none of that name. */
  run(program: string, args: readonly string[]): Promise<Ran | null>;
}
