/** `svc health`: whether a server is ready, for a container or a script. */
import { asUnreachable, exchange } from "../../shared/client/http.ts";
import { UnreachableError } from "../../shared/client/errors.ts";
import { parseServiceUrl } from "../../shared/client/service_url.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { command } from "../command_line/command.ts";
import { CliError, EXIT } from "../errors.ts";

const LOCAL_SERVER = "http://127.0.0.1:8787";

export const COMMANDS = [
  command({
    path: ["health"],
    summary: "Ask a server whether it is ready: exit 0 ready, 1 not ready, 5 not reachable",
    options: { url: { value: "origin", summary: `Address of the server (default ${LOCAL_SERVER})` } },
    examples: { "svc health": "The health check of a container" },
    async run(ctx, { options }) {
      const url = parseServiceUrl(options.url ?? LOCAL_SERVER);
      if (url === null) throw new CliError("CLI_USAGE", "--url must be an origin such as http://127.0.0.1:8787");
      // No secret is sent, so plain http is accepted.
      const { status } = await exchange(ctx, {
        method: "GET",
        url: `${url}/readyz`,
        timeoutMs: LIMITS.registryTimeoutMs,
        connectMs: LIMITS.registryConnectMs,
        maxBytes: 0,
        onTooLarge: "truncate",
      }).catch((error) => {
        const problem = asUnreachable(url, error);
        if (!(problem instanceof UnreachableError) || problem.code !== "CLI_UNREACHABLE") throw problem;
        // The fix of the code names the configuration, which is not used here.
        const { message, cause, code, fix = "Check --url and that the server is running." } = problem;
        throw new CliError(code, message, { cause, fix });
      });
      const ready = status === 200;
      ctx.out.result({ url, ready }, ready ? `${url} is ready.` : `${url} is NOT ready.`);
      return ready ? EXIT.done : EXIT.failed;
    },
  }),
];
