import { readFileSync } from 'node:fs';
import { scriptPaths } from '../../src/redis/script-source.js';

const LUA = new URL('../../lua/', import.meta.url);

/** A script's own text and its parts, read as text: what a contract test compares with what the script does. */
export interface ScriptText {
  readonly name: string;
  readonly own: string;
  /** The texts of everything it includes, directly and through others. */
  readonly included: readonly string[];
}

function included(text: string, into: Map<string, string>): void {
  const names =
    /^-- @include\s+(.+)$/m
      .exec(text)?.[1]
      ?.split(',')
      .map((name) => name.trim()) ?? [];
  for (const name of names.filter((name) => !into.has(name))) {
    const part = readFileSync(new URL(`lib/${name}.lua`, LUA), 'utf8');
    into.set(name, part);
    included(part, into);
  }
}

export function scriptTexts(): ScriptText[] {
  return [...scriptPaths()].map(([name, path]) => {
    const own = readFileSync(new URL(path, LUA), 'utf8');
    const parts = new Map<string, string>();
    included(own, parts);
    return { name, own, included: [...parts.values()] };
  });
}

/** A field of a header over all its lines, RETURNS or EMITS. */
export function headerField(text: string, field: string): string {
  const lines = text.split('\n');
  const start = lines.findIndex((line) => line.startsWith(`-- ${field} `));
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => !line.startsWith('--  '));
  return [lines[start]?.slice(`-- ${field} `.length), ...rest.slice(0, end).map((line) => line.slice(2))]
    .join(' ')
    .trim();
}

export function code(text: string): string {
  return text.replace(/^\s*--.*\n/gm, '').replace(/^#!.*\n/, '');
}

const EXPIRY_TRANSITION = [
  'reservation.expired',
  'budget.threshold_crossed',
  'custom.reservation.quarantined',
];

/** The events that a script's header names. */
export function declaredEvents(own: string): string[] {
  return headerField(own, 'EMITS')
    .split(/[,;]/)
    .map((name) => name.trim())
    .flatMap((name) =>
      name === 'those of the expiry transition' ? EXPIRY_TRANSITION : name === 'nothing' ? [] : [name],
    );
}
