import { allParts, partsOf, readLua, scriptPaths } from '../../scripts/lua/files.js';
import { headerField } from '../../scripts/lua/header.js';

/** The source of a script and of its parts. Contract tests compare it with what the script does. */
export interface ScriptText {
  readonly name: string;
  readonly own: string;
  /** The sources of everything that it includes, directly and indirectly. */
  readonly included: readonly string[];
}

export function scriptTexts(): ScriptText[] {
  const parts = allParts();
  return [...scriptPaths()].map(([name, path]) => {
    const own = readLua(path);
    return { name, own, included: [...partsOf([own], parts).values()] };
  });
}

export function code(text: string): string {
  return text.replace(/^\s*--.*\n/gm, '').replace(/^#!.*\n/, '');
}

const CREDIT_TURN = [
  'custom.credit.started',
  'custom.credit.ending',
  'custom.credit.ended',
  'custom.credit.exhausted',
  'custom.credit.voided',
];
/** What is due in the credits of a budget happens with it. */
const ROLLOVER = [
  ...CREDIT_TURN,
  'budget.reset_spent',
  'budget.exhausted',
  'budget.over_limit_entered',
  'budget.over_limit_exited',
  'budget.threshold_crossed',
];
const EXPIRY_TRANSITION = [...ROLLOVER, 'reservation.expired', 'custom.reservation.quarantined'];

const TRANSITIONS = new Map<string, readonly string[]>([
  ['those of a rollover', ROLLOVER],
  ['those of a turn of credits', CREDIT_TURN],
  ['those of the expiry transition', EXPIRY_TRANSITION],
  ['nothing', []],
]);

/** The events that a script's header names. */
export function declaredEvents(own: string): string[] {
  return (headerField(own, 'EMITS') ?? '')
    .split(/[,;]/)
    .map((name) => name.trim())
    .flatMap((name) => TRANSITIONS.get(name) ?? [name]);
}
