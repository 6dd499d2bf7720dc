/** An A2A agent of the SDK (D-134): its executor is a function of the test, its tasks are in memory. */
import { Role, type Task, TaskState } from "@a2a-js/sdk";
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  type RequestContext,
  ServerCallContext,
} from "@a2a-js/sdk/server";

export { TaskState };

/** A message that the agent received. */
export interface AgentCall {
  text: string;
  taskId: string;
  contextId: string;
  messageId: string;
  /** Whether the message continues a task. */
  continues: boolean;
  /** Publishes a state of the task, with the text of its artifact or of its status. */
  say(state: TaskState, text?: string): void;
  /** Publishes artifacts with these parts, and ends the task. */
  give(parts: object[]): void;
  /** Answers with a message in place of a task. */
  message(text: string): void;
}

export const textPart = (value: string) => ({
  content: { $case: "text" as const, value },
  metadata: undefined,
  filename: "",
  mediaType: "",
});

export class A2aAgent {
  readonly calls: AgentCall[] = [];
  /** Methods of the requests, in order. */
  readonly methods: string[] = [];
  /** The requests, as JSON values. */
  readonly requests: { method: string; params: { message: Record<string, unknown>; configuration?: unknown } }[] = [];
  #handler = this.#fresh();

  /** @param work what the agent does with a message */
  constructor(readonly work: (call: AgentCall) => void | Promise<void>) {}

  /** Forgets every task, as a restart does. */
  restart(): void {
    this.#handler = this.#fresh();
  }

  /** Answers the body of a request. */
  async answer(body: string, headers: Headers): Promise<Response> {
    const request = JSON.parse(body);
    this.methods.push(request.method);
    this.requests.push(request);
    const context = new ServerCallContext({ requestedVersion: headers.get("A2A-Version") ?? "0.3" });
    return Response.json(await this.#handler.handle(body, context));
  }

  #fresh(): JsonRpcTransportHandler {
    const executor: AgentExecutor = {
      execute: (context, bus) => this.#execute(context, bus),
      cancelTask: () => Promise.resolve(),
    };
    return new JsonRpcTransportHandler(new DefaultRequestHandler(A2A_CARD, new InMemoryTaskStore(), executor));
  }

  async #execute({ userMessage, taskId, contextId, task }: RequestContext, bus: ExecutionEventBus): Promise<void> {
    const text = userMessage.parts.map(({ content }) => content?.$case === "text" ? content.value : "").join("\n");
    const parts = (said: string) => said === "" ? [] : [textPart(said)];
    const messageOf = (said: string) => ({
      messageId: crypto.randomUUID(),
      contextId,
      taskId,
      role: Role.ROLE_AGENT,
      parts: parts(said),
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    });
    const taskOf = (state: TaskState, said: string, artifacts: Task["artifacts"]): Task => ({
      id: taskId,
      contextId,
      status: { state, message: said === "" ? undefined : messageOf(said), timestamp: new Date().toISOString() },
      artifacts,
      history: [],
      metadata: undefined,
    });
    const artifact = (content: Task["artifacts"][number]["parts"]) => ({
      artifactId: crypto.randomUUID(),
      name: "",
      description: "",
      parts: content,
      metadata: undefined,
      extensions: [],
    });
    const call: AgentCall = {
      text,
      taskId,
      contextId,
      messageId: userMessage.messageId,
      continues: task !== undefined,
      say(state, said = "") {
        const isResult = state === TaskState.TASK_STATE_COMPLETED && said !== "";
        const published = taskOf(state, isResult ? "" : said, isResult ? [artifact(parts(said))] : []);
        bus.publish(AgentEvent.task(published));
      },
      give(given) {
        const content = given as Task["artifacts"][number]["parts"];
        bus.publish(AgentEvent.task(taskOf(TaskState.TASK_STATE_COMPLETED, "", [artifact(content)])));
      },
      message: (said) => bus.publish(AgentEvent.message({ ...messageOf(said), taskId: "" })),
    };
    this.calls.push(call);
    await this.work(call);
    bus.finished();
  }
}

/** The card of the agent. */
export const A2A_CARD = {
  name: "agent",
  description: "",
  supportedInterfaces: [{ url: "http://127.0.0.1/", protocolBinding: "JSONRPC", tenant: "", protocolVersion: "1.0" }],
  provider: undefined,
  version: "1",
  capabilities: { streaming: false, pushNotifications: false, extensions: [] },
  securitySchemes: {},
  securityRequirements: [],
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  skills: [],
  signatures: [],
};
