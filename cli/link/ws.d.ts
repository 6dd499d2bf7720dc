/** Types for the part of `npm:ws` that the link uses; the package has none. */

export interface UnexpectedResponse {
  statusCode?: number;
  headers: Record<string, string | string[] | undefined>;
  on(event: "data", listener: (chunk: Uint8Array) => void): void;
  on(event: "end" | "error" | "aborted" | "close", listener: () => void): void;
}

interface Options {
  headers?: Record<string, string>;
  /** In bytes. */
  maxPayload?: number;
  perMessageDeflate?: boolean;
  followRedirects?: boolean;
  /** Roots in PEM form. They replace the roots of the system. */
  ca?: string[];
  /** Called in place of `request.end()`. */
  finishRequest?: (request: ConnectingRequest) => void;
}

interface ConnectingRequest {
  once(event: "socket", listener: (socket: { once(event: "connect", listener: () => void): void }) => void): void;
  end(): void;
}

export declare class WebSocket {
  static readonly OPEN: 1;
  constructor(url: string, options?: Options);
  readonly readyState: number;
  /** Bytes that are not sent yet. */
  readonly bufferedAmount: number;
  send(text: string): void;
  close(code?: number, reason?: string): void;
  /** Ends the connection without a close handshake. */
  terminate(): void;
  removeAllListeners(): void;
  on(event: "message", listener: (data: Uint8Array, isBinary: boolean) => void): void;
  on(event: "close", listener: (code: number, reason: Uint8Array) => void): void;
  on(event: "error", listener: (error: Error) => void): void;
  once(event: "open", listener: () => void): void;
  once(event: "unexpected-response", listener: (request: unknown, response: UnexpectedResponse) => void): void;
}
