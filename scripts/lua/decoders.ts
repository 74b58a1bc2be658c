import {
  type Alternative,
  camelCase,
  type Counted,
  type Item,
  type TextType,
  type ValueItem,
} from './header.js';

/**
 * Writes the code of the functions that turn a script's reply into an object. They read it with what src/redis/reply-reader.ts exports. A file has
 * one of these writers, because its functions share constants.
 */
export class DecoderWriter {
  private readonly words = new Map<string, string>();
  private readonly shapes = new Map<string, string>();

  /** What the functions refer to. Complete only after the last of them was written. */
  get constants(): string {
    const words = [...this.words].map(([list, name]) => `const ${name} = ${list};`);
    return [...words, ...this.shapes.values()].join('\n');
  }

  /** A function from a reader to the fields of a reply. */
  decoderOf(alternatives: readonly Alternative[]): string {
    const [only] = alternatives;
    if (only !== undefined && only.status === undefined) {
      return `(r) => { const v: Fields = {}; ${this.body(only)} return v; }`;
    }
    const cases = alternatives.map((one) => `case '${one.status}': ${this.body(one)} break;`);
    return `(r) => { const v: Fields = { status: r.text() }; switch (v.status) { ${cases.join('\n')} default: undeclared(); } return v; }`;
  }

  private body({ items, tail }: Alternative): string {
    const first = items.map((item) => this.item(item)).join(' ');
    return tail.length === 0
      ? first
      : `${first} if (r.left > 0) { ${tail.map((item) => this.value(item)).join(' ')} }`;
  }

  private item(item: Item): string {
    const target = `v.${camelCase(item.name)}`;
    switch (item.kind) {
      case 'value':
        return this.value(item);
      case 'shape':
        return `${target} = ${this.shape(item.name, item.values)}(r.text());`;
      case 'texts':
        return `${target} = r.${listed(item.counted)}(() => r.text());`;
      case 'groups': {
        const fields = item.items.map((one) => this.item(one)).join(' ');
        return `${target} = r.${listed(item.counted)}(() => { const v: Fields = {}; ${fields} return v; });`;
      }
      case 'record':
        return `${target} = r.record(${{ no: 'r.left', items: 'r.int() * 2', texts: 'r.int()' }[item.counted]});`;
    }
  }

  private value({ name, type, optional }: ValueItem): string {
    const target = `v.${camelCase(name)}`;
    return optional
      ? `{ const t = r.text(); if (t !== '') ${target} = ${this.read(type, 't')}; }`
      : `${target} = ${this.read(type, 'r.text()')};`;
  }

  private read(type: TextType, text: string): string {
    if (type === 'text') {
      return text;
    }
    return typeof type === 'string' ? `${type}(${text})` : `word(${text}, ${this.listOf(type)})`;
  }

  private listOf(words: readonly string[]): string {
    const list = JSON.stringify(words);
    const known = this.words.get(list) ?? `WORDS_${this.words.size + 1}`;
    this.words.set(list, known);
    return known;
  }

  private shape(name: string, values: readonly ValueItem[]): string {
    const reader = `${camelCase(name)}Of`;
    const members = values.map(
      (value, index) => `${camelCase(value.name)}: ${this.read(value.type, `t[${index}]!`)}`,
    );
    this.shapes.set(
      name,
      `const ${reader} = (text: string) => { const t = values(text, ${values.length}); return { ${members.join(', ')} }; };`,
    );
    return reader;
  }
}

/** The method that reads a list. */
function listed(counted: Counted): string {
  return counted === 'no' ? 'rest' : 'many';
}
