import { BODY_LIMIT_BYTES } from '../../../src/http/fastify.js';
import type { Answer } from '../../support/holdfast.js';
import type { Sample, World } from './world.js';

/** One way to get a status from an operation. */
export interface Provocation {
  readonly status: number;
  /** The error code to expect; missing for a success. */
  readonly code?: string;
  readonly how: string;
  run(world: World): Promise<Answer>;
}

/**
 * All statuses of one operation. `commonProvocations` derives 401, 500 and 503 from the sample, 400 and 413
 * as well if the operation takes a body, and 403 if it accepts API keys. The rest is in `others`.
 */
export interface OperationRow {
  readonly id: string;
  readonly success: number;
  sample(world: World): Promise<Sample>;
  readonly others: readonly Provocation[];
  /** Statuses that the protocol declares but Holdfast never returns, with the reason. */
  readonly impossible?: Readonly<Record<number, string>>;
  /** Needed if it does not follow from the path. */
  readonly plane?: 'runtime' | 'governance';
  /** Whether the operation needs no key. */
  readonly isPublic?: boolean;
  /** Whether the operation reads nothing from the store. */
  readonly readsNothing?: boolean;
  /**
   * Whether the operation reads only the key. Then damaged records only matter for a key that the process has
   * not cached.
   */
  readonly keyOnly?: boolean;
  /** What the operation answers without the records that cannot be read, if it leaves them out instead of failing. */
  readonly withoutDamaged?: { readonly status: number; readonly code?: string };
}

/** Why no caller gets 403 where only the admin key is accepted. */
export const ADMIN_ONLY = { 403: 'the admin key may do everything, and a wrong one gets 401' } as const;

/** A request that is refused with this code. */
export function refused(
  status: number,
  code: string,
  how: string,
  prepare: (world: World) => Promise<Sample>,
): Provocation {
  return { status, code, how, run: async (world) => world.send(await prepare(world)) };
}

/** A request that succeeds with this status. */
export function succeeds(
  status: number,
  how: string,
  prepare: (world: World) => Promise<Sample>,
): Provocation {
  return { status, how, run: async (world) => world.send(await prepare(world)) };
}

/** The responses that every operation gives in the same way. */
export function commonProvocations(
  { success, sample, keyOnly = false, isPublic = false, readsNothing = false, withoutDamaged }: OperationRow,
  plane: 'runtime' | 'governance',
  withBody: boolean,
  tenants: boolean,
): Provocation[] {
  return [
    { status: success, how: 'the sample', run: async (world) => world.send(await sample(world)) },
    ...(isPublic ? [] : keyProvocations(sample)),
    ...(withBody ? bodyProvocations(sample) : []),
    ...(tenants ? [permissionProvocation(sample, plane)] : []),
    ...(readsNothing ? [] : [damageProvocation(sample, keyOnly, withoutDamaged)]),
  ];
}

function keyProvocations(sample: (world: World) => Promise<Sample>): Provocation[] {
  const keyless = async (world: World, headers: Record<string, string>): Promise<Answer> => {
    const { method, path, body } = await sample(world);
    return world.holdfast.call(method, path, { body, headers });
  };
  return [
    { status: 401, code: 'UNAUTHORIZED', how: 'no key', run: (world) => keyless(world, {}) },
    {
      status: 401,
      code: 'UNAUTHORIZED',
      how: 'keys that do not exist',
      run: (world) =>
        keyless(world, {
          'x-cycles-api-key': `cyc_live_00${'a'.repeat(43)}`,
          'x-admin-api-key': 'another-admin-key-01',
        }),
    },
  ];
}

function damageProvocation(
  sample: (world: World) => Promise<Sample>,
  keyOnly: boolean,
  answer: { readonly status: number; readonly code?: string } = { status: 500, code: 'INTERNAL_ERROR' },
): Provocation {
  return {
    ...answer,
    how: 'records that cannot be read',
    run: async (world) => {
      const prepared = await sample(world);
      if (prepared.tenant !== undefined && !keyOnly) {
        // This lets the process cache the key, so that the operation itself meets the damage.
        await world.holdfast.balances(prepared.tenant);
      }
      return world.whileDamaged(() => world.send(prepared));
    },
  };
}

function bodyProvocations(sample: (world: World) => Promise<Sample>): Provocation[] {
  return [
    {
      status: 400,
      code: 'INVALID_REQUEST',
      how: 'a member that does not exist',
      run: async (world) => {
        const prepared = await sample(world);
        return world.send({ ...prepared, body: { ...prepared.body, no_such_member: true } });
      },
    },
    {
      status: 413,
      code: 'INVALID_REQUEST',
      how: 'a body beyond the limit',
      run: async (world) => {
        const prepared = await sample(world);
        return world.send({
          ...prepared,
          body: { ...prepared.body, metadata: { text: 'x'.repeat(BODY_LIMIT_BYTES) } },
        });
      },
    },
  ];
}

function permissionProvocation(
  sample: (world: World) => Promise<Sample>,
  plane: 'runtime' | 'governance',
): Provocation {
  return {
    status: 403,
    code: plane === 'runtime' ? 'FORBIDDEN' : 'INSUFFICIENT_PERMISSIONS',
    how: 'a key without the permission',
    run: async (world) => {
      const prepared = await sample(world);
      if (prepared.tenant === undefined) {
        throw new Error('the sample of an operation that takes API keys must be sent with one');
      }
      return world.send({ ...prepared, tenant: await world.powerless(prepared.tenant) });
    },
  };
}

/** A path segment longer than any id: the router itself refuses it. */
export const LONG_PART = 'a'.repeat(300);
