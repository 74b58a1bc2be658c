import { FORMATS, type Format } from './expirations.dto.js';

const MEDIA_TYPES: Readonly<Record<string, Format>> = {
  'application/json': 'json',
  'application/*': 'json',
  '*/*': 'json',
  'application/x-ndjson': 'ndjson',
  'application/ndjson': 'ndjson',
  'application/jsonl': 'ndjson',
  'text/csv': 'csv',
  'text/*': 'csv',
};

/** The form of an answer: by `format` when it is given, else the one that the Accept header likes best, else JSON. */
export function formatOf(format: string | undefined, accept = ''): Format {
  if (format !== undefined) {
    return FORMATS.find((known) => known === format.toLowerCase()) ?? 'json';
  }
  let [best, quality]: [Format, number] = ['json', 0];
  for (const range of accept.split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const known = Object.hasOwn(MEDIA_TYPES, type) ? MEDIA_TYPES[type] : undefined;
    const q = Number(parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? 1);
    if (known !== undefined && q > quality) {
      [best, quality] = [known, q];
    }
  }
  return best;
}
