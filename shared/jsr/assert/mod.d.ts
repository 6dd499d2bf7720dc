type ErrorClass<E extends Error> = abstract new (...args: never[]) => E;
export declare function assert(expr: unknown, msg?: string): asserts expr;
export declare function assertEquals<T>(actual: T, expected: T, msg?: string): void;
export declare function assertNotEquals<T>(actual: T, expected: T, msg?: string): void;
export declare function assertExists<T>(actual: T, msg?: string): asserts actual is NonNullable<T>;
export declare function assertMatch(actual: string, expected: RegExp, msg?: string): void;
export declare function assertStringIncludes(actual: string, expected: string, msg?: string): void;
export declare function assertInstanceOf<T>(
  actual: unknown,
  type: abstract new (...args: never[]) => T,
  msg?: string,
): asserts actual is T;
export declare function assertThrows(fn: () => unknown, msg?: string): unknown;
export declare function assertThrows<E extends Error>(
  fn: () => unknown,
  type: ErrorClass<E>,
  msgIncludes?: string,
  msg?: string,
): E;
export declare function assertRejects(fn: () => PromiseLike<unknown>, msg?: string): Promise<unknown>;
export declare function assertRejects<E extends Error>(
  fn: () => PromiseLike<unknown>,
  type: ErrorClass<E>,
  msgIncludes?: string,
  msg?: string,
): Promise<E>;
export declare function fail(msg?: string): never;
