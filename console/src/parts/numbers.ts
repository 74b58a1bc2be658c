/**
 * How all pages write and read numbers: as the reader's language does, in the digits 0 to 9. Separators are where that language puts
 * them, or are left out between thousands. So what a page shows can be typed again, and nothing is taken for another number.
 */
const HOW = { numberingSystem: 'latn', useGrouping: 'always' } as const;

export function numberFormat(options: Intl.NumberFormatOptions): Intl.NumberFormat {
  return new Intl.NumberFormat(undefined, { ...HOW, ...options });
}

export const COUNT = numberFormat({ maximumFractionDigits: 0 });
/** With one decimal, also where it is 0. */
export const TENTHS = numberFormat({ minimumFractionDigits: 1, maximumFractionDigits: 1 });

const PERCENT = numberFormat({ style: 'percent', maximumFractionDigits: 2 });

/** Of one: 0.42 is 42%. */
export const percentOf = (share: number): string => PERCENT.format(share);

/** A text of digits, with a point and decimals or without, which `Intl` takes exactly. */
export type Decimal = `${number}`;

const separator = (type: 'group' | 'decimal'): string =>
  numberFormat({ maximumFractionDigits: 1 })
    .formatToParts(1234567.5)
    .find((part) => part.type === type)?.value ?? '';
const POINT = separator('decimal');
const GROUP = separator('group');
/** Keyboards have one of each, whatever the language takes. */
const SPACES = /[\s\u00a0\u2009\u202f]/g;
const APOSTROPHES = /[’‘]/g;
const typed = (text: string): string => text.replace(SPACES, ' ').replace(APOSTROPHES, "'");

/** A number that is typed, as digits with a point before the decimals; undefined if the reader's language does not write it so. */
export function readDecimal(text: string): string | undefined {
  const [whole = '', decimals = '', ...rest] = typed(text).trim().split(POINT);
  const digits = whole.replaceAll(typed(GROUP), '');
  const isWritten =
    rest.length === 0 &&
    /^\d+$/.test(digits) &&
    /^\d*$/.test(decimals) &&
    (whole === digits || whole === typed(COUNT.format(BigInt(digits))));
  return isWritten ? `${digits}${decimals === '' ? '' : `.${decimals}`}` : undefined;
}

/** More digits would not be exact. The server knows the limit of each field. */
const COUNT_DIGITS = 15;

/** The number that a field has; undefined if it is empty, NaN if it is no count. */
export function readCount(text: string): number | undefined {
  if (text.trim() === '') {
    return undefined;
  }
  const digits = readDecimal(text) ?? '';
  return /^\d+$/.test(digits) && digits.length <= COUNT_DIGITS ? Number(digits) : Number.NaN;
}
