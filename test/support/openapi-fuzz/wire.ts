import { connect } from 'node:net';
import { once } from 'node:events';
import { finished } from 'node:stream/promises';
import { patience } from '../time-limits.js';

/** An HTTP response, parsed. If the server sent several, the first. */
export interface WireAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Bytes after the response, such as a second response. */
  readonly surplus: string;
  /** Whether the connection was reset before the whole response had arrived. */
  readonly isCut: boolean;
}

/** No valid exchange takes this long. A server that waits for more of the request sends no response. */
const PATIENCE_MS = 10_000;
const SEPARATOR = '\r\n\r\n';

/**
 * Writes raw bytes and reads until the server closes the connection. Ends the connection after a request that
 * is cut off, but not after a complete one: a Node.js server would conclude that the client has gone.
 * @throws Error if the server keeps the connection open, or if it did not send an HTTP response
 */
export async function exchange(
  port: number,
  bytes: Buffer,
  { cutOff = false, method = '' } = {},
): Promise<WireAnswer> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  const received: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => received.push(chunk));
  const timer = setTimeout(
    () => socket.destroy(new Error('the connection was not closed in time')),
    patience(PATIENCE_MS),
  );
  try {
    await once(socket, 'connect');
    socket.write(bytes);
    if (cutOff) {
      socket.end();
    }
    await finished(socket, { writable: false });
  } catch (error) {
    // A server that refuses early stops reading; the response that it sent before counts.
    if (!['ECONNRESET', 'EPIPE'].includes((error as NodeJS.ErrnoException).code ?? '')) {
      throw error;
    }
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
  return parse(Buffer.concat(received), method === 'HEAD');
}

function parse(bytes: Buffer, isBodiless: boolean): WireAnswer {
  const end = bytes.indexOf(SEPARATOR);
  if (end < 0) {
    throw new Error(`no response: ${JSON.stringify(bytes.toString('latin1').slice(0, 200))}`);
  }
  const [first = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1]);
  const rest = bytes.subarray(end + SEPARATOR.length);
  if (status === 100) {
    return parse(rest, isBodiless);
  }
  if (Number.isNaN(status)) {
    throw new Error(`no status line: ${JSON.stringify(first)}`);
  }
  const headers = new Headers(
    lines.map((line): [string, string] => [
      line.slice(0, line.indexOf(':')),
      line.slice(line.indexOf(':') + 1).trim(),
    ]),
  );
  const [body, size] = isBodiless ? [Buffer.alloc(0), 0] : bodyOf(rest, headers);
  const isCut = rest.length > 0 && rest.length < size;
  return {
    status,
    headers,
    text: body.toString('utf8'),
    surplus: rest.toString('latin1', size),
    isCut,
  };
}

/** @returns the body, and its size on the wire, of which only a part may have arrived */
function bodyOf(rest: Buffer, headers: Headers): [body: Buffer, size: number] {
  if (headers.get('transfer-encoding') === 'chunked') {
    return chunksOf(rest);
  }
  const length = Number(headers.get('content-length') ?? 0);
  return [rest.subarray(0, length), length];
}

function chunksOf(rest: Buffer): [body: Buffer, size: number] {
  const chunks: Buffer[] = [];
  for (let at = 0; ;) {
    const line = rest.indexOf('\r\n', at);
    const size = line < 0 ? 0 : Number.parseInt(rest.toString('latin1', at, line), 16);
    if (size === 0) {
      return [Buffer.concat(chunks), line < 0 ? rest.length : line + SEPARATOR.length];
    }
    chunks.push(rest.subarray(line + 2, line + 2 + size));
    at = line + 2 + size + 2;
  }
}
