import { readJson, stringifyJson } from './json';
import { noteSkipped } from './skipped';

/** A refusal of the API, in its own words. Status 0 means that no answer came. */
export class ApiError extends Error {
  override readonly name = 'ApiError';

  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string | undefined,
  ) {
    super(message);
  }
}

type SessionEnded = () => void;
let sessionEnded: SessionEnded = () => undefined;

/** Called whenever the API says that the session has ended. */
export function onSessionEnd(listener: SessionEnded): void {
  sessionEnded = listener;
}

/**
 * Calls an operation with the session's cookie. The header tells the server that the request is the page's own; without it, changes
 * are refused. The caller names the type of the answer, as the API's documentation has it.
 */
export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  return (await ask<T>(method, path, body)).value;
}

async function ask<T>(
  method: string,
  path: string,
  body?: unknown,
): Promise<{ readonly value: T; readonly headers: Headers }> {
  const answer = await fetch(path, {
    method,
    headers: {
      'x-holdfast-console': '1',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: stringifyJson(body) }),
  }).catch(() => {
    throw new ApiError(0, 'UNREACHABLE', 'Holdfast does not answer.', undefined);
  });
  const text = await answer.text();
  if (answer.ok) {
    noteSkipped(path.split('?', 1)[0] as string, answer.headers.get('x-holdfast-skipped-records'));
    return { value: (text === '' ? undefined : readJson(text)) as T, headers: answer.headers };
  }
  const requestId = answer.headers.get('x-request-id') ?? undefined;
  if (answer.status === 401 && path !== '/console/api/login') {
    sessionEnded();
  }
  throw refusalOf(answer.status, text, requestId);
}

function refusalOf(status: number, text: string, requestId: string | undefined): ApiError {
  try {
    const { error, message } = readJson(text) as { error: string; message: string };
    return new ApiError(status, error, message, requestId);
  } catch {
    return new ApiError(status, 'UNKNOWN', `the answer has status ${status} and no message`, requestId);
  }
}

/** A new idempotency key. `crypto.randomUUID` exists only on pages that came over https or from this machine. */
export function newIdempotencyKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `console-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** A path with its query; undefined and empty members are left out. */
export function withQuery(path: string, query: Query): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') {
      params.set(name, String(value));
    }
  }
  const text = params.toString();
  return text === '' ? path : `${path}?${text}`;
}

export const get = <T>(path: string, query: Query = {}): Promise<T> => call<T>('GET', withQuery(path, query));

/** A page of a list, and how many rows it looked at if too few of them matched to fill it. */
export async function getPage<T>(path: string, query: Query): Promise<{ answer: T; examined: number }> {
  const { value, headers } = await ask<T>('GET', withQuery(path, query));
  return { answer: value, examined: Number(headers.get('x-holdfast-examined') ?? 0) };
}
