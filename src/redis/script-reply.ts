import { camelCase, type Alternative, type Item, type TextType, type ValueItem } from './script-header.js';

type Fields = Record<string, unknown>;

const FLAGS: readonly string[] = ['0', '1'];

function readNumber(text: string): number {
  // Redis' form of infinite scores.
  const value = text === 'inf' ? Infinity : text === '-inf' ? -Infinity : Number(text);
  if (Number.isNaN(value) || text === '') {
    throw new Error('expected a number');
  }
  return value;
}

function readText(type: TextType, text: string): unknown {
  if (type === 'text') {
    return text;
  }
  if (type === 'int') {
    return readNumber(text);
  }
  const words = type === 'flag' ? FLAGS : type;
  if (!words.includes(text)) {
    throw new Error(`expected one of ${words.join(', ')}`);
  }
  return type === 'flag' ? text === '1' : text;
}

interface Value {
  readonly name: string;
  readonly type: TextType;
  readonly optional: boolean;
}

/** Items with their names in camel case. */
type Plan = readonly (
  | (Value & { readonly kind: 'value' })
  | { readonly kind: 'shape'; readonly name: string; readonly values: readonly Value[] }
  | { readonly kind: 'texts' | 'record'; readonly name: string; readonly counted: string }
  | { readonly kind: 'groups'; readonly name: string; readonly counted: string; readonly items: Plan }
)[];

const valueOf = ({ name, type, optional }: ValueItem): Value => ({ name: camelCase(name), type, optional });

function planOf(items: readonly Item[]): Plan {
  return items.map((item) => {
    const name = camelCase(item.name);
    switch (item.kind) {
      case 'value':
        return { kind: item.kind, ...valueOf(item) };
      case 'shape':
        return { kind: item.kind, name, values: item.values.map(valueOf) };
      case 'groups':
        return { kind: item.kind, name, counted: item.counted, items: planOf(item.items) };
      default:
        return { kind: item.kind, name, counted: item.counted };
    }
  });
}

/** Reads one reply from its first text to its last. */
class Reading {
  private at = 0;

  constructor(private readonly texts: readonly string[]) {}

  get left(): number {
    return this.texts.length - this.at;
  }

  next(): string {
    const text = this.texts[this.at];
    if (typeof text !== 'string') {
      throw new Error(text === undefined ? 'it is too short' : 'it holds what is no text');
    }
    this.at += 1;
    return text;
  }

  value({ name, type, optional }: Value, into: Fields): void {
    const text = this.next();
    if (text !== '' || !optional) {
      into[name] = type === 'text' ? text : readText(type, text);
    }
  }

  items(plan: Plan, into: Fields): Fields {
    for (const item of plan) {
      switch (item.kind) {
        case 'value':
          this.value(item, into);
          break;
        case 'shape':
          into[item.name] = this.shape(item.values);
          break;
        case 'texts':
          into[item.name] = this.many(item.counted, () => this.next());
          break;
        case 'groups':
          into[item.name] = this.many(item.counted, () => this.items(item.items, {}));
          break;
        case 'record':
          into[item.name] = this.record(item.counted);
      }
    }
    return into;
  }

  private many<T>(counted: string, read: () => T): T[] {
    const list: T[] = [];
    if (counted === 'no') {
      while (this.at < this.texts.length) {
        list.push(read());
      }
    } else {
      for (let left = readNumber(this.next()); left > 0; left -= 1) {
        list.push(read());
      }
    }
    return list;
  }

  private shape(values: readonly Value[]): Fields {
    const into: Fields = {};
    const texts = this.next().split(',');
    if (texts.length !== values.length) {
      throw new Error(`a text has ${texts.length} values and not ${values.length}`);
    }
    for (let index = 0; index < values.length; index += 1) {
      const { name, type } = values[index] as Value;
      const text = texts[index] as string;
      into[name] = type === 'text' ? text : readText(type, text);
    }
    return into;
  }

  private record(counted: string): ReadonlyMap<string, string> {
    const into = new Map<string, string>();
    const texts = counted === 'no' ? this.left : readNumber(this.next()) * (counted === 'texts' ? 1 : 2);
    for (let read = 0; read < texts; read += 2) {
      const name = this.next();
      into.set(name, this.next());
    }
    return into;
  }
}

/** The caller knows the type of the reply from script-types.ts. */
export type ReplyDecoder = <Decoded>(reply: readonly string[]) => Decoded;

/**
 * Returns a decoder from a script's replies to the types in script-types.ts.
 * @throws Error, from the decoder, if a reply does not match the header. The message names the script but contains nothing of the reply.
 */
export function replyDecoder(name: string, alternatives: readonly Alternative[]): ReplyDecoder {
  const plans = new Map(
    alternatives.map(({ status, items, tail }) => [
      status,
      { items: planOf(items), tail: tail.map(valueOf) },
    ]),
  );
  const only = plans.get(undefined);

  function decode(reply: readonly string[]): Fields {
    const reading = new Reading(reply);
    const status = only === undefined ? reading.next() : undefined;
    const plan = only ?? plans.get(status);
    if (plan === undefined) {
      throw new Error('its status word is not declared');
    }
    const fields = reading.items(plan.items, status === undefined ? {} : { status });
    if (reading.left > 0) {
      plan.tail.forEach((value) => reading.value(value, fields));
    }
    if (reading.left > 0) {
      throw new Error('it is too long');
    }
    return fields;
  }

  return <Decoded>(reply: readonly string[]) => {
    try {
      return decode(reply) as Decoded;
    } catch (error) {
      const { message } = error as Error;
      throw new Error(`a reply of ${name}.lua does not fit its header: ${message}`, { cause: error });
    }
  };
}
