// A made-up provider with OpenAI's chat completions, for examples and tests: no network, no key, and each answer is the same.
import { createServer } from 'node:http';

const WORDS = ['The', ' answer', ' is', ' 42', '.'];
const USAGE = { prompt_tokens: 20, completion_tokens: 60, total_tokens: 80 };

/** @typedef {{ model?: string, stream?: boolean }} Asked */

/**
 * Serves on a free port of loopback.
 * @returns {Promise<{ url: string, calls: () => number, stop: () => void }>} `url` with /v1, and how many calls were billed
 */
export async function startUpstream() {
  let calls = 0;
  const server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (/** @type {string} */ chunk) => (text += chunk));
    request.on('end', () => {
      if (request.method !== 'POST' || request.url !== '/v1/chat/completions') {
        response
          .writeHead(404, { 'content-type': 'application/json' })
          .end('{"error":{"message":"not here"}}');
        return;
      }
      calls += 1;
      /** @type {unknown} */
      const asked = JSON.parse(text);
      answer(/** @type {Asked} */ (asked), response);
    });
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', () => done(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${port}/v1`, calls: () => calls, stop };
}

/**
 * @param {Asked} asked
 * @param {import('node:http').ServerResponse} response
 */
function answer({ model = 'small-model', stream = false }, response) {
  const parts = { id: 'made-up', created: 1_700_000_000, model };
  if (!stream) {
    const message = { role: 'assistant', content: WORDS.join('') };
    const choices = [{ index: 0, finish_reason: 'stop', message }];
    const body = { ...parts, object: 'chat.completion', choices, usage: USAGE };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (/** @type {object} */ more) =>
    response.write(`data: ${JSON.stringify({ ...parts, object: 'chat.completion.chunk', ...more })}\n\n`);
  for (const content of WORDS) {
    send({ choices: [{ index: 0, finish_reason: null, delta: { role: 'assistant', content } }] });
  }
  send({ choices: [{ index: 0, finish_reason: 'stop', delta: {} }] });
  send({ choices: [], usage: USAGE });
  response.end('data: [DONE]\n\n');
}
