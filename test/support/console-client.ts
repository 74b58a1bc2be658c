import { ADMIN_API_KEY, type Json } from './holdfast.js';

export const VIEWER_API_KEY = 'test-viewer-key-0123456789';

interface ConsoleAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Json;
}

/** Sends requests as the console does from a browser: with the cookie, the Origin and the header. */
export class ConsoleClient {
  cookie = '';

  constructor(readonly url: string) {}

  async send(
    method: string,
    path: string,
    { body, headers = {} }: { body?: unknown; headers?: Record<string, string> } = {},
  ): Promise<ConsoleAnswer> {
    const answer = await fetch(this.url + path, {
      method,
      headers: {
        origin: this.url,
        'x-holdfast-console': '1',
        cookie: this.cookie,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    const isJson = answer.headers.get('content-type')?.includes('json') === true;
    return { status: answer.status, headers: answer.headers, body: isJson ? JSON.parse(text) : text };
  }

  /** Logs in and keeps the cookie. */
  async logIn(key = ADMIN_API_KEY): Promise<ConsoleAnswer> {
    const answer = await this.send('POST', '/console/api/login', { body: { key } });
    this.cookie = (answer.headers.get('set-cookie') ?? '').split(';', 1)[0] as string;
    return answer;
  }
}

/** Reads server-sent events from the live stream until the stream closes. */
export class LiveReader {
  readonly events: { name: string; data: string }[] = [];
  readonly ended: Promise<void>;
  private readonly gone = new AbortController();

  constructor(url: string, cookie: string) {
    this.ended = this.read(url, cookie).catch(() => undefined);
  }

  close(): Promise<void> {
    this.gone.abort();
    return this.ended;
  }

  private async read(url: string, cookie: string): Promise<void> {
    const { body } = await fetch(`${url}/console/api/stream`, {
      headers: { cookie },
      signal: this.gone.signal,
    });
    let rest = '';
    for await (const chunk of (body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream())) {
      const parts = (rest + chunk).split('\n\n');
      rest = parts.pop() ?? '';
      for (const part of parts) {
        const name = /^event: (.*)$/m.exec(part)?.[1] ?? 'message';
        const data = /^data: (.*)$/m.exec(part)?.[1];
        if (data !== undefined) {
          this.events.push({ name, data });
        }
      }
    }
  }
}
