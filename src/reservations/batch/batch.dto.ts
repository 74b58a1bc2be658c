import { ArrayMaxSize, ArrayMinSize, IsIn, IsString } from 'class-validator';
import { invalidField } from '../../ledger/index.js';
import { compileValidator, NestedArray, Obeys, Optional, rulesToSchema } from '../../wire/index.js';
import { CommitDto } from '../commit/commit.service.js';
import { DirectDebitDto } from '../direct-debit/direct-debit.service.js';
import { ExtendDto } from '../extend/extend.service.js';
import { HeadersOfOperation, type OperationHeaders } from '../operation-headers.js';
import { RefundDto } from '../refund/refund.service.js';
import { ReleaseDto } from '../release/release.service.js';
import { ReserveDto } from '../reserve/reserve.service.js';

export const BATCHED = ['reserve', 'commit', 'release', 'extend', 'event', 'refund'] as const;
export type BatchedName = (typeof BATCHED)[number];

const MOST_OPERATIONS = 50;
const BODIES = [ReserveDto, CommitDto, ReleaseDto, ExtendDto, DirectDebitDto, RefundDto];

/** One operation of a batch. Its body is judged with the operation, not with the batch. */
export class BatchedOperationDto {
  @IsIn(BATCHED)
  op!: BatchedName;

  /** For commit, release, extend and refund, where the single request has it in its path. */
  @Optional(IsString())
  reservation_id?: string;

  /** For the refund of a direct debit, in its place. */
  @Optional(IsString())
  event_id?: string;

  @HeadersOfOperation()
  headers?: OperationHeaders;

  @Obeys({
    name: 'isBody',
    test: (value) => value !== undefined,
    schema: { anyOf: BODIES.map((body) => rulesToSchema(body)) },
    phrase: 'the body that a request of its own would have',
  })
  body!: unknown;
}

export class BatchDto {
  @NestedArray(() => BatchedOperationDto)
  @ArrayMinSize(1)
  @ArrayMaxSize(MOST_OPERATIONS)
  operations!: BatchedOperationDto[];
}

const validate = compileValidator(BatchDto);

/**
 * The operations of a batch. No order of them is promised, so no two may be on one reservation or have one idempotency key.
 * @throws Refusal INVALID_REQUEST
 */
export function operationsOf(body: unknown): readonly BatchedOperationDto[] {
  const { operations } = validate(body);
  const seen = new Map<string, number>();
  for (const [index, operation] of operations.entries()) {
    const field = fieldThatNames(operation);
    requireOwnField(operation, field, index);
    const value = field === 'body.idempotency_key' ? keyOf(operation.body) : operation[field];
    if (typeof value !== 'string') {
      continue;
    }
    const name = field === 'body.idempotency_key' ? `${operation.op} ${value}` : value;
    const earlier = seen.get(name);
    if (earlier !== undefined) {
      throw invalidField(
        `operations[${index}].${field}`,
        `operations[${earlier}] and operations[${index}] have the same ${field}; send them in two batches`,
      );
    }
    seen.set(name, index);
  }
  return operations;
}

type NamingField = 'reservation_id' | 'event_id' | 'body.idempotency_key';

/** What tells the operation from others of its kind. Keys of settlements only have to differ for one reservation. */
function fieldThatNames({ op, event_id }: BatchedOperationDto): NamingField {
  if (op === 'refund' && event_id !== undefined) {
    return 'event_id';
  }
  return op === 'reserve' || op === 'event' ? 'body.idempotency_key' : 'reservation_id';
}

function requireOwnField(operation: BatchedOperationDto, field: NamingField, index: number): void {
  const { op, headers } = operation;
  if (headers !== undefined && op !== 'reserve') {
    const here = `operations[${index}].headers`;
    throw invalidField(here, `${here} must not be given for ${op}`);
  }
  for (const id of ['reservation_id', 'event_id'] as const) {
    const isNamed = operation[id] !== undefined;
    if (isNamed !== (field === id)) {
      const here = `operations[${index}].${id}`;
      const message = isNamed ? `${here} must not be given for ${op}` : `${here} is required for ${op}`;
      throw invalidField(here, message);
    }
  }
}

function keyOf(body: unknown): unknown {
  return (body as { readonly idempotency_key?: unknown } | null)?.idempotency_key;
}
