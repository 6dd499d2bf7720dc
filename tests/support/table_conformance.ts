/** Compares every answer of a service with the row of its route table. */
import type { App } from "../../shared/server/http/app.ts";

/** Returns the service with a `fetch` whose answers `check` sees first; what it throws fails the test. */
export function withCheckedAnswers<Service extends Pick<App, "fetch">>(
  service: Service,
  check: (method: string, path: string, answer: Response) => Promise<void>,
): Service {
  return {
    ...service,
    async fetch(request, peer) {
      const { method, url } = request;
      const answer = await service.fetch(request, peer);
      await check(method, new URL(url).pathname, answer.clone());
      return answer;
    },
  };
}
