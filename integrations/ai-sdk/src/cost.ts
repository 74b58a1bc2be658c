/** US dollars for a million tokens, as providers publish them. */
export interface DollarPrice {
  readonly input: number;
  /** 0 for embeddings. */
  readonly output: number;
  /** Input that the provider had cached; `input` if left out. */
  readonly cachedInput?: number;
  /** Input that the provider caches, at the dearest duration in use; `input` if left out. */
  readonly cacheWrite?: number;
}

/** For budgets in TOKENS: each token counts as one. */
export const TOKENS = 'tokens';

export type Price = DollarPrice | typeof TOKENS;

/** What both versions of the specification report. Everything may be missing, and providers report other than whole numbers, too. */
export interface Usage {
  readonly inputTokens: {
    readonly total: number | undefined;
    readonly cacheRead?: number | undefined;
    readonly cacheWrite?: number | undefined;
  };
  readonly outputTokens: { readonly total: number | undefined };
}

export interface Amount {
  readonly unit: 'TOKENS' | 'USD_MICROCENTS';
  readonly amount: number;
}

interface InputTokens {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
}

export interface Tokens {
  readonly input: number;
  readonly output: number;
}

/** A dollar is 100,000,000 microcents, so a dollar for a million tokens is 100 for each. */
const MICROCENTS_PER_TOKEN = 100;
/** Thousandths of a unit are noise of binary fractions; the rest is rounded up, so that nothing that costs something is free. */
const PARTS = 1000;

const microcents = (dollarsForMillion: number): number =>
  Math.ceil(Math.round(dollarsForMillion * MICROCENTS_PER_TOKEN * PARTS) / PARTS);

const isPrice = (price: unknown): boolean =>
  typeof price === 'number' && Number.isFinite(price) && price >= 0;

/** What is wrong with a price that an application without types gave. */
export function faultOf(price: unknown): string | undefined {
  if (price === TOKENS) {
    return undefined;
  }
  const { input, output, cachedInput = 0, cacheWrite = 0 } = (price ?? {}) as Partial<DollarPrice>;
  return [input, output, cachedInput, cacheWrite].every(isPrice)
    ? undefined
    : `a price is "${TOKENS}", or has input and output in dollars for a million tokens`;
}

export const unitOf = (price: Price): Amount['unit'] => (price === TOKENS ? 'TOKENS' : 'USD_MICROCENTS');

/** At most what so many tokens cost, because a provider may cache any of the input. In the unit of the price, in whole units. */
export function boundOf(price: Price, { input, output }: Tokens): number {
  if (price === TOKENS) {
    return Math.ceil(input) + Math.ceil(output);
  }
  const dearest = Math.max(price.input, price.cachedInput ?? 0, price.cacheWrite ?? 0);
  return microcents(input * dearest + output * price.output);
}

function costOf(price: Price, { input, cacheRead, cacheWrite }: InputTokens, output: number): number {
  return price === TOKENS
    ? input + output
    : microcents(
        (input - cacheRead - cacheWrite) * price.input +
          cacheRead * (price.cachedInput ?? price.input) +
          cacheWrite * (price.cacheWrite ?? price.input) +
          output * price.output,
      );
}

const isCount = (count: unknown): count is number => Number.isSafeInteger(count) && (count as number) >= 0;

/** The input that a provider counted, if it can be true. No call has an empty input, and what was cached is a part of it. */
function inputOf({ inputTokens }: Usage): InputTokens | undefined {
  const { total, cacheRead, cacheWrite } = inputTokens ?? {};
  const counted = { input: total, cacheRead: cacheRead ?? 0, cacheWrite: cacheWrite ?? 0 };
  const { input, cacheRead: read, cacheWrite: written } = counted;
  const isTrue = isCount(input) && isCount(read) && isCount(written) && input > 0 && read + written <= input;
  return isTrue ? { input, cacheRead: read, cacheWrite: written } : undefined;
}

/** What is known of a call besides its usage. */
export interface Sight {
  /** The estimate of what was sent, in tokens. */
  readonly sent: number;
  /** About how many tokens came back. */
  readonly seen: number;
  /** Whether an answer came back whose parts are not counted, as an embedding. */
  readonly isAnswered: boolean;
}

export interface Charge {
  readonly amount: number;
  readonly tokens: Tokens;
}

/**
 * What a call costs: each side as the provider counted it if that can be true, or else as it was sent and seen, at the dearest price.
 * Undefined if nothing was counted and nothing came back, so that nobody knows.
 */
export function chargeOf(price: Price, usage: Usage | undefined, sight: Sight): Charge | undefined {
  const input = usage && inputOf(usage);
  const reported = usage?.outputTokens?.total;
  const isOutputTrue = isCount(reported) && (reported > 0 || sight.seen === 0);
  if (input === undefined && !(isOutputTrue && reported > 0) && sight.seen === 0 && !sight.isAnswered) {
    return undefined;
  }
  const output = isOutputTrue ? reported : sight.seen;
  const tokens = { input: input?.input ?? Math.ceil(sight.sent), output };
  const amount =
    input === undefined ? boundOf(price, { input: sight.sent, output }) : costOf(price, input, output);
  if (Number.isSafeInteger(amount)) {
    return { amount, tokens };
  }
  return usage === undefined ? undefined : chargeOf(price, undefined, sight);
}

/** English has about four bytes for a token, most other text between two and three: an estimate that is rarely too low. */
const BYTES_PER_TOKEN = 3;
/** What a picture or a page costs at most of today's models; only of a text does the size of the data say more. */
const TOKENS_PER_FILE = 2000;
/** Roles, names and separators of a request. */
const TOKENS_PER_REQUEST = 16;

const encoder = new TextEncoder();

/** About how many tokens so many bytes of text have. */
export const tokensInBytes = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN);

const bytesIn = (text: string): number => encoder.encode(text).byteLength;

const isFile = (type: unknown): boolean => type === 'file' || type === 'reasoning-file';

interface FilePart {
  readonly mediaType?: unknown;
  readonly data: unknown;
}

function tokensOfFile({ mediaType, data }: FilePart): number {
  const isText = typeof mediaType === 'string' && mediaType.startsWith('text/');
  return Math.max(TOKENS_PER_FILE, tokensInBytes(bytesOfText(data, isText)));
}

/** The size of a file, if it is a text and part of the call: in its bytes or in base64, or within an object that says which. */
function bytesOfText(data: unknown, isText: boolean): number {
  if (data instanceof Uint8Array || typeof data === 'string') {
    const bytes = typeof data === 'string' ? (data.length * 3) / 4 : data.byteLength;
    return isText ? bytes : 0;
  }
  const { text, data: inner } = (data ?? {}) as { text?: unknown; data?: unknown };
  return typeof text === 'string' ? bytesIn(text) : inner === undefined ? 0 : bytesOfText(inner, isText);
}

/** The bytes of text in a part of an answer or of its stream. A file counts as what it counts in a call. */
export function bytesOfPart(part: object): number {
  const { type, delta, text, input, result } = part as Readonly<Record<string, unknown>>;
  if (isFile(type)) {
    return TOKENS_PER_FILE * BYTES_PER_TOKEN;
  }
  const words = [delta, text, input].filter((words) => typeof words === 'string');
  return bytesIn(words.join('')) + (result === undefined ? 0 : bytesIn(JSON.stringify(result)));
}

interface Sent {
  readonly prompt?: unknown;
  readonly values?: unknown;
  readonly tools?: unknown;
  readonly responseFormat?: unknown;
}

/** About how many tokens a call sends: its messages or values, the descriptions of its tools, and the schema of its answer. */
export function inputTokensOf({ prompt, values, tools, responseFormat }: Sent): number {
  let inFiles = 0;
  const sent = [prompt ?? values, tools ?? [], responseFormat ?? []];
  const text = JSON.stringify(sent, (_key, value: unknown) => {
    const part = value as { type?: unknown; data?: unknown } | null;
    if (typeof part === 'object' && part !== null && isFile(part.type) && 'data' in part) {
      inFiles += tokensOfFile(part as FilePart);
      return undefined;
    }
    return value;
  });
  return TOKENS_PER_REQUEST + tokensInBytes(bytesIn(text)) + inFiles;
}

/**
 * Tokens that providers add to the limit of an answer: the budget for thinking in the options of a provider. Anthropic's has 1024 where
 * it is not set.
 */
export function thinkingTokensOf(options: unknown): number {
  let tokens = 0;
  JSON.stringify(options ?? {}, (_key, value: unknown) => {
    const { type, budgetTokens } = (value ?? {}) as { type?: unknown; budgetTokens?: unknown };
    if (isCount(budgetTokens)) {
      tokens += budgetTokens;
    } else if (type === 'enabled') {
      tokens += 1024;
    }
    return value;
  });
  return tokens;
}
