import { expect, test } from '@jest/globals';
import { CUSTOM_EVENT_TYPES, EVENT_TYPES } from '../../src/ledger/event-types.js';
import { shows } from '../compatibility/shows.js';
import { UNTOLD_EVENTS } from '../compatibility/untold-events.js';
import { code, declaredEvents, scriptTexts } from '../support/script-text.js';
import { loadSpec, specAbsence, type Spec, type SpecSchema } from '../support/spec/index.js';

test.each(scriptTexts())('$name appends exactly the events that its header names', ({ own, included }) => {
  const appended = [own, ...included].flatMap((text) =>
    [...code(text).matchAll(/append_event\(tag,\s*'([\w.]+)'/g)].map((match) => match[1] as string),
  );
  expect([...new Set(declaredEvents(own))].sort()).toEqual([...new Set(appended)].sort());
});

test('every call of append_event names its event as a literal, so that the check above sees them all', () => {
  for (const { name, own, included } of scriptTexts()) {
    const calls = [own, ...included].flatMap((text) => [
      ...code(text).matchAll(/(?<!function )append_event\(([^,]+),\s*(.)/g),
    ]);
    expect(`${name} ${calls.filter((match) => match[1] !== 'tag' || match[2] !== "'").length}`).toBe(
      `${name} 0`,
    );
  }
});

/** Scripts and parts whose events no request causes: time does, a loop in the background, or many requests together. */
const WITHOUT_REQUEST = [
  'check_auth_rate',
  'check_burn_rates',
  'check_latency',
  'check_rates',
  'credit_turn',
  'emit_store_outage',
  'expire_api_keys',
  'reconcile',
  'rollover',
];

test('every event that a request causes, however late, has its request id', () => {
  shows('request id of events');
  const texts = new Set(scriptTexts().flatMap(({ own, included }) => [own, ...included]));
  const without = [...texts].flatMap((text) => {
    const origins = [...code(text).matchAll(/\{ ?actor = [^}]*\}/g)].map(([origin]) => origin);
    const name = /^-- (\w+):/m.exec(text)?.[1] as string;
    return origins.some((origin) => !origin.includes('request = ')) ? [name] : [];
  });
  expect(without.sort()).toEqual(WITHOUT_REQUEST);
});

const absence = specAbsence();
const withSpec = absence === undefined ? test : test.skip;
const why = absence === undefined ? '' : ` (skipped: ${absence})`;

withSpec(`every event is one of the protocol's, or custom${why}`, () => {
  shows('custom event types');
  const { components } = (loadSpec() as Spec).documents.governance as unknown as {
    components: { schemas: { EventType: SpecSchema } };
  };
  const known = components.schemas.EventType.enum ?? [];
  expect(known).toContain('reservation.denied');
  const ours = new Set(scriptTexts().flatMap(({ own }) => declaredEvents(own)));
  expect([...ours].filter((type) => !known.includes(type) && !type.startsWith('custom.'))).toEqual([]);
});

test('every event of the protocol is emitted by a script, or listed with the reason why not, and so is every other', () => {
  const emitted = scriptTexts().flatMap(({ own }) => declaredEvents(own));
  const ofProtocol = [...new Set(emitted)].filter((type) => !type.startsWith('custom.'));
  expect([...new Set(emitted)].filter((type) => !ofProtocol.includes(type)).sort()).toEqual(
    [...CUSTOM_EVENT_TYPES].sort(),
  );
  expect([...Object.keys(UNTOLD_EVENTS), ...ofProtocol].sort()).toEqual([...EVENT_TYPES].sort());
  expect(Object.values(UNTOLD_EVENTS)).not.toContain('');
});

withSpec(`the list of event types is that of the protocol${why}`, () => {
  const { components } = (loadSpec() as Spec).documents.governance as unknown as {
    components: { schemas: { EventType: SpecSchema } };
  };
  expect([...EVENT_TYPES].sort()).toEqual([...(components.schemas.EventType.enum as string[])].sort());
});
