/** US dollars for a million tokens, as providers publish them. */
export interface DollarPrice {
  readonly input: number;
  readonly output: number;
  /** Input that the provider had cached; `input` if left out. */
  readonly cachedInput?: number;
  /** Input that the provider caches; `input` if left out. */
  readonly cacheWrite?: number;
}

/** For budgets in TOKENS: each token counts as one. */
export const TOKENS = 'tokens';

export type Price = DollarPrice | typeof TOKENS;

/** What both versions of the specification report. Everything may be missing. */
export interface Usage {
  readonly inputTokens: {
    readonly total: number | undefined;
    readonly cacheRead: number | undefined;
    readonly cacheWrite: number | undefined;
  };
  readonly outputTokens: { readonly total: number | undefined };
}

export interface Amount {
  readonly unit: 'TOKENS' | 'USD_MICROCENTS';
  readonly amount: number;
}

export interface Tokens {
  readonly input: number;
  readonly output: number;
  readonly cacheRead?: number;
  readonly cacheWrite?: number;
}

/** A dollar is 100,000,000 microcents, so a dollar for a million tokens is 100 for each. */
const MICROCENTS_PER_TOKEN = 100;
/** Less than any price, and more than what binary fractions add to a sum. */
const ROUNDING = 1e-6;

/** The cost in the unit of the price, rounded up to whole units. */
export function costOf(price: Price, { input, output, cacheRead = 0, cacheWrite = 0 }: Tokens): Amount {
  if (price === TOKENS) {
    return { unit: 'TOKENS', amount: input + output };
  }
  const dollars =
    (input - cacheRead - cacheWrite) * price.input +
    cacheRead * (price.cachedInput ?? price.input) +
    cacheWrite * (price.cacheWrite ?? price.input) +
    output * price.output;
  return { unit: 'USD_MICROCENTS', amount: Math.ceil(dollars * MICROCENTS_PER_TOKEN - ROUNDING) };
}

/** What the provider counted, if it did. */
export function tokensOf(usage: Usage | undefined): Tokens | undefined {
  const { inputTokens, outputTokens } = usage ?? {};
  if (inputTokens?.total === undefined || outputTokens?.total === undefined) {
    return undefined;
  }
  return {
    input: inputTokens.total,
    output: outputTokens.total,
    cacheRead: inputTokens.cacheRead ?? 0,
    cacheWrite: inputTokens.cacheWrite ?? 0,
  };
}

/** English has about four bytes for a token, most other text between two and three: an estimate that is rarely too low. */
const BYTES_PER_TOKEN = 3;
/** What a picture or a page costs at most of today's models; only of a text does the size of the data say more. */
const TOKENS_PER_FILE = 2000;
/** Roles, names and separators of a request. */
const TOKENS_PER_REQUEST = 16;

const encoder = new TextEncoder();

/** About how many tokens a text has. */
export const tokensIn = (text: string): number =>
  Math.ceil(encoder.encode(text).byteLength / BYTES_PER_TOKEN);

interface FilePart {
  readonly mediaType?: unknown;
  readonly data: unknown;
}

function tokensOfFile({ mediaType, data }: FilePart): number {
  const isText = typeof mediaType === 'string' && mediaType.startsWith('text/');
  return Math.max(TOKENS_PER_FILE, Math.ceil(bytesOfText(data, isText) / BYTES_PER_TOKEN));
}

/** The size of a file, if it is a text and part of the call: in its bytes or in base64, or within an object that says which. */
function bytesOfText(data: unknown, isText: boolean): number {
  if (data instanceof Uint8Array || typeof data === 'string') {
    const bytes = typeof data === 'string' ? (data.length * 3) / 4 : data.byteLength;
    return isText ? bytes : 0;
  }
  const { text, data: inner } = (data ?? {}) as { text?: unknown; data?: unknown };
  return typeof text === 'string'
    ? encoder.encode(text).byteLength
    : inner === undefined
      ? 0
      : bytesOfText(inner, isText);
}

/** About how many tokens a call sends: its messages and the descriptions of its tools. */
export function inputTokensOf({ prompt, tools }: { prompt: unknown; tools?: unknown }): number {
  let inFiles = 0;
  const text = JSON.stringify([prompt, tools ?? []], (_key, value: unknown) => {
    const part = value as { type?: unknown; data?: unknown } | null;
    if (typeof part === 'object' && part !== null && part.type === 'file' && 'data' in part) {
      inFiles += tokensOfFile(part as FilePart);
      return undefined;
    }
    return value;
  });
  return TOKENS_PER_REQUEST + tokensIn(text) + inFiles;
}
