import { PassThrough } from 'node:stream';
import { expect, test } from '@jest/globals';
import { answerRaw } from '../../src/http/raw-answers.js';
import { shows } from '../compatibility/shows.js';

/** What a client reads if its connection fails with this error before there is a request. */
function answerTo(code: string): string {
  const socket = new PassThrough();
  answerRaw(Object.assign(new Error('x'), { code }), socket);
  return String(socket.read() ?? '');
}

test.each([
  ['ERR_HTTP_REQUEST_TIMEOUT', 408, 'did not arrive in time'],
  ['HPE_HEADER_OVERFLOW', 431, 'headers are larger'],
  ['HPE_INVALID_METHOD', 400, 'not valid HTTP'],
])('%s is answered with %s in the error form', (code, status, words) => {
  shows('trace id header');
  const [head = '', body = ''] = answerTo(code).split('\r\n\r\n');
  const parsed = JSON.parse(body) as Record<string, string>;
  expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [A-Z]`));
  expect(parsed).toEqual({
    error: 'INVALID_REQUEST',
    message: expect.stringContaining(words),
    request_id: expect.any(String),
    trace_id: expect.any(String),
  });
  expect(head).toContain('\r\nX-Content-Type-Options: nosniff\r\n');
  expect(head).toContain(`X-Request-Id: ${parsed['request_id']}\r\nX-Cycles-Trace-Id: ${parsed['trace_id']}`);
});

test('a connection that the client has reset gets no response', () => {
  expect(answerTo('ECONNRESET')).toBe('');
});
