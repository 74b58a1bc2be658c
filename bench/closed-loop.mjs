// Closed loops of the load generator, with autocannon: each connection sends its next request when the last one is answered.
import { createHistogram } from 'node:perf_hooks';
import autocannon from 'autocannon';

/**
 * @typedef {Exclude<import('autocannon').Request['onResponse'], string | undefined>} OnResponse
 * @typedef {Omit<import('autocannon').Request, 'onResponse'> & { onResponse?: OnResponse }} Request
 * @typedef {ReturnType<typeof createHistogram>} Histogram
 */

/** How often autocannon looks whether the time is over. */
const SAMPLE_MS = 50;

/** @param {Histogram} latencies @param {number} ms */
export const note = (latencies, ms) => latencies.record(Math.max(1, Math.round(ms * 1000)));

/** @param {Histogram} latencies in µs */
export const summaryOf = (latencies) => ({
  requests: latencies.count,
  p50_ms: latencies.percentile(50) / 1000,
  p99_ms: latencies.percentile(99) / 1000,
  max_ms: latencies.max / 1000,
});

/** @param {string} body */
export function reservationIdIn(body) {
  const at = body.indexOf('"reservation_id":"') + 18;
  return body.slice(at, at + 22);
}

/** @param {number} status @param {string} body */
export function expectSuccess(status, body) {
  if (status !== 200) {
    throw new Error(`got ${status} ${body}`);
  }
}

/**
 * @param {{ port: number, connections: number, seconds: number }} plan
 * @param {Request[]} requests that each connection sends in turn
 * @param {{ apiKey?: string }} [tenant]
 */
export async function closedLoop({ port, connections, seconds }, requests, { apiKey } = {}) {
  const latencies = createHistogram();
  const key = apiKey === undefined ? {} : { 'x-cycles-api-key': apiKey };
  const start = performance.now();
  /** @type {Error | undefined} */
  let failure;
  /** @type {import('autocannon').Result} */
  const { errors, statusCodeStats = {} } = await new Promise((done, fail) => {
    /** @type {import('autocannon').Options & { sampleInt: number }} */
    const options = {
      url: `http://127.0.0.1:${port}`,
      connections,
      duration: seconds,
      timeout: 30,
      sampleInt: SAMPLE_MS,
      requests: requests.map(({ onResponse, ...request }) => ({
        method: 'POST',
        ...request,
        headers: { 'content-type': 'application/json', ...key, ...request.headers },
        // What a listener throws is lost in autocannon's parser.
        onResponse: (/** @type {Parameters<OnResponse>} */ ...response) => {
          try {
            onResponse?.(...response);
          } catch (error) {
            failure ??= /** @type {Error} */ (error);
            running.stop?.();
          }
        },
      })),
    };
    const running = autocannon(options, (error, result) => {
      if (error instanceof Error) {
        fail(error);
      } else {
        done(result);
      }
    });
    running.on('response', (_client, _status, _bytes, ms) => {
      note(latencies, ms);
    });
  });
  if (failure !== undefined) {
    throw failure;
  }
  if (errors > 0) {
    throw new Error(`${errors} requests failed or were not answered in time`);
  }
  const elapsed_s = (performance.now() - start) / 1000;
  const outcomes = Object.fromEntries(
    Object.entries(statusCodeStats).map(([status, { count = 0 }]) => [status, count]),
  );
  return { elapsed_s, outcomes, ...summaryOf(latencies) };
}
