import type { HoldfastOptions } from './client.js';
import { faultOf, type Price } from './cost.js';
import type { BudgetError } from './errors.js';
import type { Subject } from './subject.js';

/** What is known of a call before it is made. */
export interface BudgetedCall {
  readonly modelId: string;
  readonly prompt?: unknown;
  /** The texts of an embedding. */
  readonly values?: readonly string[];
  readonly tools?: unknown;
  readonly responseFormat?: unknown;
  readonly maxOutputTokens?: number;
  readonly abortSignal?: AbortSignal;
  /** What the application passed to generateText or streamText. */
  readonly providerOptions?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

export interface BudgetOptions {
  readonly holdfast: HoldfastOptions;
  readonly subject: Subject | ((call: BudgetedCall) => Subject);
  /** A call of a model without a price is refused. */
  readonly price: Price | ((modelId: string, call: BudgetedCall) => Price | undefined);
  /** Sent with calls that set none, because a reservation needs a bound; 4096 unless set. */
  readonly maxOutputTokens?: number;
  /** About how many tokens a call sends. By default a third of the bytes of its messages and tools, and 2000 for each file. */
  readonly inputTokens?: ((call: BudgetedCall) => number) | undefined;
  /** What a call costs if nobody learns how it ended, because this process or its connection broke. `estimate` unless set. */
  readonly unknownEnd?: 'estimate' | 'input' | 'release';
  /** How long a reservation outlives this process, 60000 unless set. It is extended while the call runs. */
  readonly ttlMs?: number;
  /** Whether calls are made without a reservation while Holdfast is away, and charged later. `refuse` unless set. */
  readonly whenUnavailable?: 'refuse' | 'allow';
  /** Told about calls that were made without a reservation, and charges that could not be made. By default console.warn. */
  readonly onProblem?: (problem: BudgetError) => void;
}

const CHOICES = {
  unknownEnd: ['estimate', 'input', 'release'],
  whenUnavailable: ['refuse', 'allow'],
} as const;
const COUNTS = ['maxOutputTokens', 'ttlMs'] as const;

/** What is wrong with options that an application without types gave. */
export function faultOfOptions(options: BudgetOptions): string | undefined {
  for (const name of ['unknownEnd', 'whenUnavailable'] as const) {
    const given = options[name];
    const allowed: readonly string[] = CHOICES[name];
    if (given !== undefined && !allowed.includes(given)) {
      return `${name} is one of ${allowed.join(', ')}`;
    }
  }
  for (const name of COUNTS) {
    const given = options[name];
    if (given !== undefined && !(Number.isSafeInteger(given) && given > 0)) {
      return `${name} is a whole number above 0`;
    }
  }
  if (
    typeof options.subject !== 'function' &&
    (typeof options.subject !== 'object' || options.subject === null)
  ) {
    return 'subject is an object, or a function of the call';
  }
  return typeof options.price === 'function' ? undefined : faultOf(options.price);
}
