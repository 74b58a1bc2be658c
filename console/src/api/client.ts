import { readJson, stringifyJson } from './json';
import type { Answer, Body, ListPath, Method, Page, Parameters, Path, Value } from './operations';
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
 * Asks with the session's cookie. The header tells the server that the request is the page's own; without it, changes are refused.
 * What is not in the API's document, which has the types of everything else, the caller knows.
 */
export async function ask<T>(
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
  if (answer.status === 401 && !path.startsWith('/console/api/')) {
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

/** The path with the parameters that it names; the others are its query, but for undefined and empty ones. */
export function filled(path: string, parameters: object): string {
  const rest = new URLSearchParams();
  let text = path;
  for (const [name, value] of Object.entries(parameters as Readonly<Record<string, Value>>)) {
    if (path.includes(`{${name}}`)) {
      text = text.replace(`{${name}}`, encodeURIComponent(String(value)));
    } else if (value !== undefined && value !== '') {
      rest.set(name, String(value));
    }
  }
  return rest.size === 0 ? text : `${text}?${rest.toString()}`;
}

/** Calls an operation of the API. */
export async function call<M extends Method, P extends Path<M>>(
  method: M,
  path: P,
  parameters: Parameters<M, P>,
  body?: Body<M, P>,
): Promise<Answer<M, P>> {
  return (await ask<Answer<M, P>>(method.toUpperCase(), filled(path, parameters), body)).value;
}

export const get = <P extends Path<'get'>>(
  path: P,
  parameters: Parameters<'get', P>,
): Promise<Answer<'get', P>> => call('get', path, parameters);

/** A page of a list, the cursor of the next one, and how many rows it looked at if too few of them matched to fill it. */
export async function getPage<P extends ListPath>(
  path: P,
  parameters: Parameters<'get', P>,
): Promise<{ answer: Answer<'get', P>; next: string | undefined; examined: number }> {
  const { value, headers } = await ask<Answer<'get', P> & Page>('GET', filled(path, parameters));
  const { has_more: hasMore, next_cursor: next }: Page = value;
  return {
    answer: value,
    next: hasMore ? next : undefined,
    examined: Number(headers.get('x-holdfast-examined') ?? 0),
  };
}
