import { readJson, stringifyJson } from '../wire/index.js';

const TIMEOUT_MS = 10_000;

/** A step failed. The message is one line for the user. */
export class DemoError extends Error {
  override readonly name = 'DemoError';
}

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

export interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** A client of the public HTTP API. */
export class Api {
  constructor(
    private readonly baseUrl: string,
    private readonly credential: Readonly<Record<string, string>>,
  ) {}

  /** @throws DemoError without a response, or if its body is not JSON. An empty body counts as an empty object. */
  async call(method: Method, path: string, body?: object): Promise<Answer> {
    const headers =
      body === undefined ? this.credential : { ...this.credential, 'Content-Type': 'application/json' };
    const content = body === undefined ? {} : { body: stringifyJson(body) };
    let text: string;
    let status: number;
    try {
      const response = await fetch(this.baseUrl + path, {
        method,
        headers,
        ...content,
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      ({ status } = response);
      text = await response.text();
    } catch (error) {
      const { cause, message } = error as Error;
      throw new DemoError(
        `${method} ${path}: no answer (${cause instanceof Error ? cause.message : message})`,
        { cause: error },
      );
    }
    try {
      return { status, body: text === '' ? {} : (readJson(text) as Answer['body']) };
    } catch (error) {
      throw new DemoError(`${method} ${path}: ${status} with a body that is not JSON`, { cause: error });
    }
  }

  /**
   * Calls the API and checks the status.
   * @throws DemoError that names the step, the expected statuses and the response
   */
  async expect(
    step: string,
    statuses: readonly number[],
    method: Method,
    path: string,
    body?: object,
  ): Promise<Answer> {
    const answer = await this.call(method, path, body);
    if (!statuses.includes(answer.status)) {
      throw new DemoError(`${step}: expected ${statuses.join(' or ')}, got ${describe(answer)}`);
    }
    return answer;
  }
}

export function describe({ status, body }: Answer): string {
  return typeof body['error'] === 'string'
    ? `${status} ${body['error']}: ${String(body['message'])}`
    : `${status} ${stringifyJson(body)}`;
}
