import { expect, test } from '@jest/globals';
import { code, headerField, scriptTexts } from '../support/script-text.js';
import { loadSpec, specAbsence, type Spec, type SpecSchema } from '../support/spec/index.js';

const EXPIRY_TRANSITION = ['reservation.expired', 'custom.reservation.quarantined'];

function declaredEvents(own: string): string[] {
  return headerField(own, 'EMITS')
    .split(/[,;]/)
    .map((name) => name.trim())
    .flatMap((name) => (name === 'those of the expiry transition' ? EXPIRY_TRANSITION : name === 'nothing' ? [] : [name]));
}

test.each(scriptTexts())('$name appends exactly the events that its header names', ({ own, included }) => {
  const appended = [own, ...included].flatMap((text) =>
    [...code(text).matchAll(/append_event\(tag,\s*'([\w.]+)'/g)].map((match) => match[1] as string),
  );
  expect([...new Set(declaredEvents(own))].sort()).toEqual([...new Set(appended)].sort());
});

test('every call of append_event names its event as a literal, so that the check above sees them all', () => {
  for (const { name, own, included } of scriptTexts()) {
    const calls = [own, ...included].flatMap((text) => [...code(text).matchAll(/(?<!function )append_event\(([^,]+),\s*(.)/g)]);
    expect(`${name} ${calls.filter((match) => match[1] !== 'tag' || match[2] !== "'").length}`).toBe(`${name} 0`);
  }
});

const absence = specAbsence();
const withSpec = absence === undefined ? test : test.skip;

withSpec(`every event is one of the protocol's, or custom${absence === undefined ? '' : ` (skipped: ${absence})`}`, () => {
  const { components } = (loadSpec() as Spec).documents.governance as unknown as { components: { schemas: { EventType: SpecSchema } } };
  const known = components.schemas.EventType.enum ?? [];
  expect(known).toContain('reservation.denied');
  const ours = new Set(scriptTexts().flatMap(({ own }) => declaredEvents(own)));
  expect([...ours].filter((type) => !known.includes(type) && !type.startsWith('custom.'))).toEqual([]);
});
