import 'reflect-metadata';
import fc from 'fast-check';
import { Type } from 'class-transformer';
import {
  ArrayMaxSize,
  IsArray,
  IsBoolean,
  IsEmail,
  IsIn,
  IsOptional,
  IsString,
  MaxLength as ClassValidatorMaxLength,
  ValidateNested,
} from 'class-validator';
import { EVENT_TYPES } from '../../src/ledger/event-types.js';
import { INT64_MAX } from '../../src/ledger/amount.js';
import { Refusal } from '../../src/ledger/refusal.js';
import { SubscriptionCreateDto } from '../../src/webhooks/subscriptions/subscription.dto.js';
import { type DtoClass, readRules } from '../../src/wire/rules/class-rules.js';
import { compileRules, compileValidator } from '../../src/wire/rules/compile.js';
import {
  IsFreeObject,
  IsInt,
  IsInt64,
  IsStringMap,
  Length,
  Matches,
  MaxLength,
  Nested,
  NestedArray,
  Optional,
} from '../../src/wire/rules/decorators.js';
import { findProblems } from '../../src/wire/rules/explain.js';
import { rulesToSchema } from '../../src/wire/rules/class-rules.js';

class Amount {
  @IsString()
  @IsIn(['TOKENS', 'CREDITS'])
  unit!: string;

  @IsInt64({ min: 0 })
  amount!: number | bigint;
}

class Subject {
  @Optional()
  @Length(1, 8)
  @Matches(/^[a-z0-9_.-]+$/)
  tenant?: string;

  @Optional()
  @IsStringMap({ maxEntries: 2, maxValueLength: 4 })
  dimensions?: Record<string, string>;
}

class Order {
  @Length(1, 6)
  key!: string;

  @Nested(() => Subject)
  subject!: Subject;

  @Nested(() => Amount)
  estimate!: Amount;

  @Optional()
  @NestedArray(() => Amount)
  @ArrayMaxSize(2)
  parts?: Amount[];

  @Optional()
  @IsArray()
  @ArrayMaxSize(2)
  @MaxLength(3, { each: true })
  tags?: string[];

  @Optional()
  @IsInt({ min: 1000, max: 5000 })
  ttl_ms?: number;

  @Optional()
  @IsBoolean()
  dry_run?: boolean;

  @Optional()
  @IsFreeObject()
  metadata?: Record<string, unknown>;
}

const rules = readRules(Order);
const accepts = compileRules(rules);
const validate = compileValidator(Order);

const valid = {
  key: 'k1',
  subject: { tenant: 'acme', dimensions: { a: 'b' } },
  estimate: { unit: 'TOKENS', amount: INT64_MAX },
  parts: [{ unit: 'CREDITS', amount: 0 }],
  tags: ['x'],
  ttl_ms: 1000,
  dry_run: false,
  metadata: { deep: [{ any: null }] },
};

/** Values near the limits of the rules, so that valid and invalid bodies are about equally likely. */
const text = fc.oneof(
  fc.constantFrom(
    '',
    'a',
    'acme',
    'TOKENS',
    'CREDITS',
    'abcdef',
    'abcdefg',
    'A:b',
    '😀😀',
    '😀😀😀😀😀😀',
    '\uFE0F\uFE0F',
    '__proto__',
  ),
  fc.string({ maxLength: 9, unit: 'grapheme' }),
);
const scalar = fc.oneof(
  text,
  fc.constantFrom<unknown>(
    null,
    undefined,
    true,
    false,
    0,
    -1,
    1000,
    999,
    5001,
    1.5,
    -0,
    NaN,
    Infinity,
    2 ** 53,
    10n,
    -1n,
    INT64_MAX,
    INT64_MAX + 1n,
  ),
  fc.integer(),
);
const anything = fc.oneof(
  scalar,
  fc.array(scalar, { maxLength: 3 }),
  fc.dictionary(text, scalar, { maxKeys: 3 }),
);

const amount = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      unit: fc.constantFrom('TOKENS', 'CREDITS'),
      amount: fc.constantFrom<unknown>(0, 5, INT64_MAX),
    }),
  },
  { weight: 1, arbitrary: fc.record({ unit: scalar, amount: scalar, extra: scalar }, { requiredKeys: [] }) },
  { weight: 1, arbitrary: anything },
);
const mostly = <T>(good: fc.Arbitrary<T>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 6, arbitrary: good }, { weight: 1, arbitrary: anything });

const body = fc.record(
  {
    key: mostly(fc.constantFrom('k', 'abcdef')),
    subject: mostly(
      fc.record(
        { tenant: mostly(fc.constant('acme')), dimensions: mostly(fc.constant({ a: 'b' })) },
        { requiredKeys: [] },
      ),
    ),
    estimate: amount,
    parts: mostly(fc.array(amount, { maxLength: 3 })),
    tags: mostly(fc.array(mostly(fc.constantFrom('a', 'abc')), { maxLength: 3 })),
    ttl_ms: mostly(fc.integer({ min: 990, max: 5010 })),
    dry_run: mostly(fc.boolean()),
    metadata: mostly(fc.dictionary(text, anything)),
    other: fc.constant(1),
    constructor: fc.constant('x'),
  },
  { requiredKeys: ['key', 'subject', 'estimate'] },
);

/** Unknown fields are rare; otherwise no body would ever be accepted. */
const order = fc.tuple(body, fc.nat(9), fc.nat(9)).map(([fields, other, constructor]) => {
  const copy: Record<string, unknown> = { ...fields };
  if (other > 0) {
    delete copy['other'];
  }
  if (constructor > 0) {
    delete copy['constructor'];
  }
  return copy;
});

function refusalOf(value: unknown): Refusal {
  try {
    validate(value);
  } catch (error) {
    if (error instanceof Refusal) {
      return error;
    }
    throw error;
  }
  throw new Error('the body was accepted');
}

test('the compiled validator accepts exactly what class-validator accepts', () => {
  const verdicts = { accepted: 0, refused: 0 };
  fc.assert(
    fc.property(order, (value) => {
      const accepted = accepts(value);
      verdicts[accepted ? 'accepted' : 'refused'] += 1;
      expect({ value, accepted }).toEqual({ value, accepted: findProblems(rules, value).length === 0 });
    }),
    { numRuns: 5000 },
  );
  // A generator that makes only one kind of body would prove nothing.
  expect(verdicts.accepted).toBeGreaterThan(200);
  expect(verdicts.refused).toBeGreaterThan(200);
});

test('an accepted body is passed on unchanged', () => {
  expect(validate(valid)).toBe(valid);
});

test.each([
  [
    { ...valid, foo: 1 },
    "unknown field 'foo'; allowed: key, subject, estimate, parts, tags, ttl_ms, dry_run, metadata",
    'foo',
  ],
  [
    { ...valid, estimate: { unit: 'TOKENS', amount: 1, foo: 1 } },
    "unknown field 'estimate.foo'; allowed: unit, amount",
    'estimate.foo',
  ],
  [
    { ...valid, estimate: { unit: 'TOKENS', amount: -1 } },
    'estimate.amount must be an integer from 0 to 9223372036854775807',
    'estimate.amount',
  ],
  [
    { ...valid, estimate: { unit: 'EUR', amount: 1 } },
    'estimate.unit must be one of TOKENS, CREDITS',
    'estimate.unit',
  ],
  [
    { ...valid, parts: [{ unit: 'TOKENS', amount: 1.5 }] },
    'parts[0].amount must be an integer from 0 to 9223372036854775807',
    'parts[0].amount',
  ],
  [
    { ...valid, parts: [5] },
    'parts must be an array of at most 2 items, each an object; parts[0] is not',
    'parts',
  ],
  [
    { ...valid, tags: ['a', 'abcd'] },
    'tags must be an array of at most 2 items, each a string of at most 3 characters; tags[1] is not: "abcd"',
    'tags',
  ],
  [{ ...valid, ttl_ms: '1000' }, 'ttl_ms must be an integer from 1000 to 5000', 'ttl_ms'],
  [
    { ...valid, ttl_ms: null },
    'ttl_ms must not be null; leave it out, or give an integer from 1000 to 5000',
    'ttl_ms',
  ],
  [{ ...valid, dry_run: 'yes' }, 'dry_run must be true or false', 'dry_run'],
  [{ ...valid, key: undefined }, 'key is required; it must be a string of 1 to 6 characters', 'key'],
  [{ ...valid, subject: [] }, 'subject must be an object', 'subject'],
  [
    { ...valid, metadata: [] },
    'metadata must be a JSON object nested at most 32 levels deep, of at most 16384 bytes as JSON',
    'metadata',
  ],
  [
    { ...valid, metadata: { a: 'é'.repeat(8189) } },
    'metadata has 16386 bytes as JSON; at most 16384 are allowed',
    'metadata',
  ],
])('%# a refusal names the field and what is allowed', (value, message, field) => {
  const refusal = refusalOf(value);
  expect(refusal.code).toBe('INVALID_REQUEST');
  expect(refusal.message).toBe(message);
  expect(refusal.details?.['field']).toBe(field);
});

test('an unknown event type is named, and the list of all is not repeated', () => {
  const body = { url: 'https://example.com/', event_types: ['reservation.expired', 'reservation.expird'] };
  expect(findProblems(readRules(SubscriptionCreateDto), body)).toEqual([
    {
      field: 'event_types',
      message: `event_types must be an array of 1 to 100 items, each one of the ${EVENT_TYPES.length} values that /openapi.json lists; event_types[1] is not: "reservation.expird"`,
    },
  ]);
});

test('several mistakes are reported together', () => {
  const refusal = refusalOf({ key: '', subject: {}, estimate: { amount: 1 }, foo: 1 });
  expect(refusal.details?.['problems']).toEqual([
    { field: 'foo', message: expect.stringContaining("unknown field 'foo'") as string },
    { field: 'key', message: 'key must be a string of 1 to 6 characters' },
    { field: 'estimate.unit', message: 'estimate.unit is required; it must be one of TOKENS, CREDITS' },
  ]);
});

test.each([undefined, null, 5, 'text', []])('a body that is not an object is refused: %p', (value) => {
  expect(refusalOf(value).message).toMatch(/JSON object/);
});

test('metadata that would exhaust the stack is refused and causes no crash', () => {
  let deep: Record<string, unknown> = {};
  for (let level = 0; level < 100_000; level += 1) {
    deep = { deep };
  }
  expect(refusalOf({ ...valid, metadata: deep }).message).toMatch(/nested at most/);
});

test.each(['subject', 'parts'])(
  'lists within lists where %s should be are refused, however deep',
  (field) => {
    let deep: unknown[] = [];
    for (let level = 0; level < 100_000; level += 1) {
      deep = [deep];
    }
    expect(refusalOf({ ...valid, [field]: deep }).details?.['field']).toBe(field);
  },
);

test('the OpenAPI schema states the same rules', () => {
  expect(rulesToSchema(Order)).toMatchObject({
    type: 'object',
    required: ['key', 'subject', 'estimate'],
    additionalProperties: false,
    properties: {
      key: { type: 'string', minLength: 1, maxLength: 6 },
      estimate: {
        required: ['unit', 'amount'],
        properties: { amount: { type: 'integer', format: 'int64', minimum: 0, maximum: INT64_MAX } },
      },
      subject: { properties: { tenant: { type: 'string', pattern: '^[a-z0-9_.-]+$' } } },
      tags: { type: 'array', maxItems: 2, items: { type: 'string', maxLength: 3 } },
      ttl_ms: { type: 'integer', minimum: 1000, maximum: 5000 },
    },
  });
});

describe('a rule that cannot be compiled stops the start', () => {
  class WithIsOptional {
    @IsOptional()
    @IsString()
    name?: string;
  }
  class WithForeignLength {
    @IsString()
    @ClassValidatorMaxLength(3)
    name!: string;
  }
  class WithUnknown {
    @IsEmail()
    name!: string;
  }
  class WithLooseNesting {
    @ValidateNested()
    @Type(() => Amount)
    amount!: Amount;
  }
  class WithItemsOnly {
    @IsString({ each: true })
    names!: string[];
  }
  class WithoutRules {
    name!: string;
  }

  test.each([
    [WithIsOptional, /WithIsOptional\.name: use Optional\(\)/],
    [WithForeignLength, /WithForeignLength\.name: import Length and MaxLength from src\/wire/],
    [WithUnknown, /WithUnknown\.name: the decorator isEmail cannot be compiled/],
    [WithLooseNesting, /WithLooseNesting\.amount: add IsArray\(\) or IsObject\(\)/],
    [WithItemsOnly, /WithItemsOnly\.names: add IsArray\(\)/],
    [WithoutRules, /WithoutRules has no validation rules/],
  ])('%p', (dto, message) => {
    expect(() => compileValidator(dto as DtoClass)).toThrow(message);
  });

  test.each([/^a/g, /^a/y, /^a/i])('a pattern with flags: %p', (pattern) => {
    expect(() => Matches(pattern)).toThrow(`Matches() takes a RegExp without flags, not ${pattern}`);
  });
});
