import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { RouteTable } from '../../src/http/route-table.js';
import { NOT_SERVED } from '../compatibility/operations.js';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, type Answer } from '../support/holdfast.js';
import {
  escapePart,
  loadSpec,
  problemsOf,
  SchemaBook,
  specAbsence,
  type Spec,
  type SpecOperation,
} from '../support/spec/index.js';
import { ROWS } from './operations/index.js';
import { commonProvocations, type OperationRow, type Provocation } from './operations/table.js';
import { World, type Sample } from './operations/world.js';

/**
 * What our own document says about each operation; this provides the common refusals even without the
 * protocol's documents.
 */
interface OwnOperation {
  readonly path: string;
  readonly method: string;
  readonly requestBody?: unknown;
  readonly security?: readonly Readonly<Record<string, unknown>>[];
  readonly responses: Readonly<Record<number, { readonly $ref?: string; readonly description?: string }>>;
}

let world: World;
let own: ReadonlyMap<string, OwnOperation>;
let book: SchemaBook;

beforeAll(async () => {
  world = await World.start();
  const document = JSON.parse((await world.holdfast.call('GET', '/openapi.json')).text) as {
    paths: Record<string, Record<string, OwnOperation & { operationId: string }>>;
  };
  book = new SchemaBook({ own: document });
  own = new Map(
    Object.entries(document.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]): [string, OwnOperation] => [
        operation.operationId,
        { ...operation, path, method },
      ]),
    ),
  );
});

afterAll(() => world.stop());

function provocationsOf(row: OperationRow): Provocation[] {
  const operation = own.get(row.id);
  if (operation === undefined) {
    throw new Error(`${row.id} has a row, but it is not served`);
  }
  // Where any valid key is accepted, no key can lack the permission.
  const tenants =
    (operation.security ?? []).some((scheme) => 'ApiKeyAuth' in scheme) &&
    row.impossible?.[403] === undefined;
  const plane = row.plane ?? (/^\/v1\/(admin|auth)\//.test(operation.path) ? 'governance' : 'runtime');
  return [...commonProvocations(row, plane, operation.requestBody !== undefined, tenants), ...row.others];
}

/** What is refused with a code of something else. The components of the reference have names of their own for it. */
const APART: Readonly<Record<number, string>> = { 413: 'TOO_LARGE', 415: 'NOT_JSON', 503: 'UNAVAILABLE' };

/** Whether the reference lists the code among the refusals of the operation. */
function listsRefusal({ responses }: OwnOperation, status: number, code: string): boolean {
  const { $ref = '', description = '' } = responses[status] ?? {};
  return $ref.endsWith(`/${APART[status] ?? code}`) || description.includes(`\`${code}\``);
}

/**
 * `Holdfast.call` compares every response with the protocol's documents; here, successes are compared with
 * our own document.
 */
function check(row: OperationRow, { status, code, how }: Provocation, answer: Answer): void {
  try {
    if (code !== undefined) {
      expectRefusal(answer, status, code);
      expect(listsRefusal(own.get(row.id) as OwnOperation, status, code)).toBe(true);
      return;
    }
    expectStatus(answer, status);
    const { path, method } = own.get(row.id) as OwnOperation;
    const pointer = `#/paths/${escapePart(path)}/${method}/responses/${status}/content/application~1json/schema`;
    expect(
      answer.text === '' ? [] : problemsOf(book.validatorOf('own', pointer), JSON.parse(answer.text)),
    ).toEqual([]);
  } catch (error) {
    throw new Error(
      `${row.id} ${status} by ${how}: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

describe('every operation answers what its row says', () => {
  test.each(ROWS.map((row): [string, OperationRow] => [row.id, row]))('%s', async (_id, row) => {
    shows('insufficient budget');
    for (const provocation of provocationsOf(row)) {
      check(row, provocation, await provocation.run(world));
    }
  });
});

const absence = specAbsence();
const withSpec = absence === undefined ? describe : describe.skip;

withSpec(
  `the table beside the protocol's documents${absence === undefined ? '' : ` (skipped: ${absence})`}`,
  () => {
    function servedOperations(): SpecOperation[] {
      const routes = new Set(world.holdfast.app.get(RouteTable).list());
      return (loadSpec() as Spec).operations.filter(({ method, template }) =>
        routes.has(`${method} ${template.replaceAll(/\{(\w+)\}/g, ':$1')}`),
      );
    }

    test('has a row for every operation that is served', () => {
      expect(
        servedOperations()
          .map(({ id }) => id)
          .sort(),
      ).toEqual(ROWS.map(({ id }) => id).sort());
    });

    test('gets every declared status, or says why it is impossible', () => {
      const open = servedOperations().flatMap(({ id, responses }) => {
        const row = ROWS.find((candidate) => candidate.id === id);
        const known =
          row === undefined
            ? []
            : [
                ...provocationsOf(row).map(({ status }) => status),
                ...Object.keys(row.impossible ?? {}).map(Number),
                ...(row.withoutDamaged === undefined ? [] : [500]),
              ];
        return [...responses.keys()]
          .filter((status) => !known.includes(status))
          .map((status) => `${id} ${status}`);
      });
      expect(open).toEqual([]);
    });

    test('calls no status impossible that it gets, or that is not declared', () => {
      const wrong = servedOperations().flatMap(({ id, responses }) => {
        const row = ROWS.find((candidate) => candidate.id === id);
        const found = row === undefined ? [] : provocationsOf(row).map(({ status }) => status);
        return Object.keys(row?.impossible ?? {})
          .map(Number)
          .filter((status) => found.includes(status) || !responses.has(status))
          .map((status) => `${id} ${status}`);
      });
      expect(wrong).toEqual([]);
    });

    test('lists the operations that are not served', () => {
      const served = servedOperations();
      const missing = (loadSpec() as Spec).operations
        .filter((operation) => !served.includes(operation))
        .map(({ id }) => id);
      expect(missing.sort()).toEqual([...NOT_SERVED].sort());
    });
  },
);

describe('without the store', () => {
  test('every operation returns 503 with the time to retry, and never 401', async () => {
    const samples: [OperationRow, Sample][] = [];
    for (const row of ROWS.filter(({ readsNothing }) => readsNothing !== true)) {
      samples.push([row, await row.sample(world)]);
    }
    const answers = await world.whileStoreIsAway(() =>
      Promise.all(samples.map(([, sample]) => world.send(sample))),
    );
    for (const [index, [row]] of samples.entries()) {
      const answer = answers[index] as Answer;
      check(
        row,
        {
          status: 503,
          code: 'INTERNAL_ERROR',
          how: 'a store that does not reply',
          run: () => Promise.resolve(answer),
        },
        answer,
      );
      expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
    }
  });
});
