import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Random walks through spec/ledger.qnt, as Quint's simulator writes them. */

const ROOT = join(import.meta.dirname, '../..');
const QUINT = join(ROOT, 'node_modules/@informalsystems/quint/dist/src/cli.js');

export interface SpecRequest {
  readonly kind: string;
  readonly hold: number;
  readonly scope: string;
  readonly amount: number;
  readonly policy: string;
  readonly ttl: number;
  readonly grace: number;
  readonly charge: number;
}

export interface SpecEvent {
  readonly kind: string;
  readonly scope: string;
  readonly hold: number;
}

export interface SpecBudget {
  readonly allocated: number;
  readonly remaining: number;
  readonly reserved: number;
  readonly spent: number;
  readonly debt: number;
  readonly limit: number;
  readonly over: boolean;
  readonly frozen: boolean;
  readonly closed: boolean;
  readonly returned: number;
  readonly ends: number;
  /** 0 if there is no period. */
  readonly period: number;
  readonly base: number;
  readonly rollover: string;
}

export interface SpecHold {
  readonly leaf: string;
  readonly amount: number;
  readonly policy: string;
  readonly grace: number;
  readonly charge: number;
  readonly expires: number;
  readonly extensions: number;
  readonly state: string;
}

/** What the end of a hold or a direct debit, whose number is that of its request, charged every budget of the leaf, or a refund took back. */
export interface SpecEntry {
  readonly hold: number;
  readonly leaf: string;
  readonly charge: number;
}

/** A state of the model, and the step that led to it. */
export interface SpecStep {
  readonly key: number;
  readonly request: SpecRequest;
  readonly word: string;
  readonly told: readonly SpecEvent[];
  readonly isReplay: boolean;
  readonly now: number;
  readonly budgets: ReadonlyMap<string, SpecBudget>;
  readonly holds: ReadonlyMap<number, SpecHold>;
  readonly journal: readonly SpecEntry[];
}

/** The first step is the initial state. */
export type Walk = readonly SpecStep[];

export interface WalkOptions {
  readonly seed: number;
  readonly count: number;
  readonly steps: number;
}

/**
 * Takes random walks through the model and checks its invariants in each state.
 * @throws Error with the simulator's report if an invariant is violated
 */
export async function takeWalks({ seed, count, steps }: WalkOptions): Promise<Walk[]> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-test-spec-'));
  try {
    const child = spawn(
      process.execPath,
      [
        QUINT,
        'run',
        join(ROOT, 'spec/walk.qnt'),
        '--backend=typescript',
        '--invariant=safe',
        `--seed=${seed}`,
        `--max-samples=${count}`,
        `--n-traces=${count}`,
        `--max-steps=${steps}`,
        '--verbosity=0',
        `--out-itf=${join(folder, 'walk-{seq}.itf.json')}`,
      ],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const [code] = (await once(child, 'close')) as [number | null];
    if (code !== 0) {
      throw new Error(`the simulation of spec/walk.qnt with seed ${seed} failed:\n${output}`);
    }
    return readdirSync(folder).map((file) => walkIn(readFileSync(join(folder, file), 'utf8')));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Trace {
  readonly states: readonly Record<string, unknown>[];
}

interface Ledger {
  readonly now: number;
  readonly budgets: ReadonlyMap<string, SpecBudget>;
  readonly holds: ReadonlyMap<number, SpecHold>;
  readonly journal: readonly SpecEntry[];
}

function walkIn(text: string): Walk {
  return (JSON.parse(text) as Trace).states.map((state) => {
    const { now, budgets, holds, journal } = plain(state['ledger']) as Ledger;
    const { key, request, word, told, isReplay } = plain(state['last']) as Omit<SpecStep, keyof Ledger>;
    return { key, request, word, told, isReplay, now, budgets, holds, journal };
  });
}

/** A value of the Informal Trace Format, in which integers, sets and maps are objects with one member. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(plain);
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  const { '#bigint': integer, '#set': set, '#map': map } = value as Record<string, unknown>;
  if (integer !== undefined) {
    return Number(integer);
  }
  if (set !== undefined) {
    return plain(set);
  }
  if (map !== undefined) {
    return new Map(plain(map) as [unknown, unknown][]);
  }
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member)]));
}
