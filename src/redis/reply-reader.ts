/** What a reply is decoded into, by the names in the header of its script. */
export type Fields = Record<string, unknown>;

/** Reads one reply from its first text to its last. The decoders in script-types.ts are generated calls of it. */
export class ReplyReader {
  private at = 0;

  constructor(private readonly texts: readonly string[]) {}

  get left(): number {
    return this.texts.length - this.at;
  }

  text(): string {
    const text = this.texts[this.at];
    if (typeof text !== 'string') {
      throw new Error(text === undefined ? 'it is too short' : 'it holds what is no text');
    }
    this.at += 1;
    return text;
  }

  int(): number {
    return int(this.text());
  }

  /** The items up to the end of the reply. */
  rest<T>(read: () => T): T[] {
    const list: T[] = [];
    while (this.at < this.texts.length) {
      list.push(read());
    }
    return list;
  }

  /** The items whose number comes first. */
  many<T>(read: () => T): T[] {
    return Array.from({ length: this.int() }, read);
  }

  /** Names and values, `texts` of them in all. */
  record(texts: number): ReadonlyMap<string, string> {
    const into = new Map<string, string>();
    for (let read = 0; read < texts; read += 2) {
      const name = this.text();
      into.set(name, this.text());
    }
    return into;
  }
}

export function int(text: string): number {
  // Redis' form of infinite scores.
  const value = text === 'inf' ? Infinity : text === '-inf' ? -Infinity : Number(text);
  if (Number.isNaN(value) || text === '') {
    throw new Error('expected a number');
  }
  return value;
}

const FLAGS = ['0', '1'];

export function flag(text: string): boolean {
  return word(text, FLAGS) === '1';
}

export function word(text: string, words: readonly string[]): string {
  if (!words.includes(text)) {
    throw new Error(`expected one of ${words.join(', ')}`);
  }
  return text;
}

/** The values of a text with several of them. */
export function values(text: string, count: number): string[] {
  const list = text.split(',');
  if (list.length !== count) {
    throw new Error(`a text has ${list.length} values and not ${count}`);
  }
  return list;
}

export function undeclared(): never {
  throw new Error('its status word is not declared');
}

/**
 * @throws Error if the reply does not match the header of its script. The message names the script but contains nothing of the reply.
 */
export function decodeReply(
  name: string,
  decode: (reader: ReplyReader) => Fields,
  reply: readonly string[],
): Fields {
  const reader = new ReplyReader(reply);
  try {
    const fields = decode(reader);
    if (reader.left > 0) {
      throw new Error('it is too long');
    }
    return fields;
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`a reply of ${name}.lua does not fit its header: ${message}`, { cause: error });
  }
}
