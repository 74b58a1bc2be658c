/** The longest pause that an endpoint is granted: as long as a retry policy's own `max_delay_ms` may be. */
export const RETRY_AFTER_MAX_MS = 3_600_000;

export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

const SECONDS = /^\d{1,10}$/;
/** The fixed form of HTTP's dates; the two obsolete ones are not sent by anything of this century. */
const HTTP_DATE =
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/**
 * How long an endpoint asks to be left alone, in ms, from its `Retry-After` (RFC 9110, 10.2.3): seconds, or a date, which counts from
 * the answer's own `Date`, so that the clocks need not agree. Undefined when there is no such header or it cannot be read; never
 * negative and never more than an hour.
 */
export function retryAfterMs(headers: AnswerHeaders): number | undefined {
  const text = textOf(headers['retry-after']);
  const delayMs = SECONDS.test(text)
    ? Number(text) * 1000
    : dateMs(text) - (dateMs(textOf(headers['date'])) || new Date().getTime());
  return Number.isNaN(delayMs) ? undefined : Math.min(Math.max(delayMs, 0), RETRY_AFTER_MAX_MS);
}

function textOf(header: string | string[] | undefined): string {
  return (Array.isArray(header) ? header[0] : header)?.trim() ?? '';
}

/** NaN when it is no date. */
function dateMs(text: string): number {
  return HTTP_DATE.test(text) ? Date.parse(text) : NaN;
}
