/** The client of the A2A SDK, and a program of it: URL of a card, token and text; it prints the state and the text of the result. */
import { Role, type Task, TaskState } from "@a2a-js/sdk";
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory } from "@a2a-js/sdk/client";

/** A client of the SDK, made from the URL of the card. */
export async function a2aClient(url: string, token: string) {
  const fetchImpl = ((input: string, init: RequestInit = {}) => {
    const headers = { ...init.headers as Record<string, string>, Authorization: `Bearer ${token}` };
    return fetch(input, { ...init, headers });
  }) as typeof fetch;
  const transports = [new JsonRpcTransportFactory({ fetchImpl })];
  const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { transports }));
  const client = await factory.createFromUrl(url, `${new URL(url).pathname}/.well-known/agent-card.json`);
  return async (text: string, messageId: string, returnImmediately = false) =>
    await client.sendMessage({
      tenant: "",
      message: {
        messageId,
        contextId: "",
        taskId: "",
        role: Role.ROLE_USER,
        parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" }],
        metadata: undefined,
        extensions: [],
        referenceTaskIds: [],
      },
      configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately },
      metadata: undefined,
    }) as Task;
}

export function textOf({ artifacts }: Task): unknown {
  return artifacts[0]?.parts[0]?.content?.value;
}

if (import.meta.main) {
  const [url = "", token = "", text = ""] = Deno.args;
  const task = await (await a2aClient(url, token))(text, crypto.randomUUID());
  const isCompleted = task.status?.state === TaskState.TASK_STATE_COMPLETED;
  console.log(`${isCompleted ? "completed" : task.status?.state}: ${textOf(task)}`);
}
