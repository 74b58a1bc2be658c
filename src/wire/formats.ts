/** The forms of an export; a list that can be exported has its pages in JSON. */
export const FORMATS = ['json', 'ndjson', 'csv'] as const;
export type Format = (typeof FORMATS)[number];

export const EXPORT_TYPES: Readonly<Record<Exclude<Format, 'json'>, string>> = {
  ndjson: 'application/x-ndjson; charset=utf-8',
  csv: 'text/csv; charset=utf-8; header=present',
};

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

/** The format of a response: `format` if given, otherwise the one that the Accept header prefers, otherwise JSON. */
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
