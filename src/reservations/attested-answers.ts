import { Injectable } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { type Caller, seesEvidence } from '../auth/index.js';
import { type ArtifactType, EvidenceService } from '../evidence/index.js';
import { refusalResponse, sendJson } from '../http/index.js';
import { type ErrorCode, Refusal } from '../ledger/index.js';
import {
  partitionCode,
  partitionOfTenant,
  RedisService,
  SYSTEM_OWNER,
  tagOf,
  tagOfReservationId,
} from '../redis/index.js';
import { canonicalJson, readJson } from '../wire/index.js';
import type { Operation } from './admission.js';

const ENDPOINTS = {
  decide: 'POST /v1/decide',
  reserve: 'POST /v1/reservations',
  commit: 'POST /v1/reservations/{reservation_id}/commit',
  release: 'POST /v1/reservations/{reservation_id}/release',
} as const satisfies Partial<Record<ArtifactType, string>>;

/**
 * The refusals that a script decides from budgets and reservations. Nothing was decided where a request is not valid or not allowed. Those
 * by the rules on actions are missing: the envelope's list of codes is closed, and verifiers refuse others.
 */
const DENIALS: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'BUDGET_EXCEEDED',
  'BUDGET_FROZEN',
  'BUDGET_CLOSED',
  'OVERDRAFT_LIMIT_EXCEEDED',
  'DEBT_OUTSTANDING',
  'UNIT_MISMATCH',
  'RESERVATION_FINALIZED',
  'RESERVATION_EXPIRED',
  'TENANT_CLOSED',
]);

/** Bytes of canonical JSON. A denial stores nothing else, so the envelopes of repeated denials must be small. */
const MAX_DENIED_REQUEST_BYTES = 2048;

/** A request whose outcome may be attested. */
interface AttestedRequest {
  readonly artifact: keyof typeof ENDPOINTS;
  readonly operation: Operation<Caller>;
  readonly body: object;
  /** The one in the path. */
  readonly reservationId?: string;
}

/** A successful outcome. */
interface AttestedOutcome {
  readonly stamp?: string | undefined;
  readonly answer: 'fresh' | 'observed' | 'replay';
  /** The response as JSON text, with what evidence attests. */
  readonly response: string;
  /** Further members of the response, which evidence has no place for, as `"name":value`. */
  readonly unattested?: string | undefined;
  /** The reservation that was made or settled. */
  readonly reservationId?: string | undefined;
}

/** Sends the answers of decide, reserve, commit and release, with the reference to their evidence if evidence is issued. */
@Injectable()
export class AttestedAnswers {
  constructor(
    private readonly evidence: EvidenceService,
    private readonly redis: RedisService,
  ) {}

  /** @throws what `decide` throws; a denial has the reference to its evidence. */
  async send(
    reply: FastifyReply,
    request: AttestedRequest,
    decide: () => Promise<AttestedOutcome>,
  ): Promise<void> {
    let outcome: AttestedOutcome;
    try {
      outcome = await decide();
    } catch (error) {
      await this.attestDenial(error, request);
      throw error;
    }
    const { response, unattested, stamp } = outcome;
    const more = unattested === undefined ? '' : `,${unattested}`;
    const evidence = stamp === undefined ? '' : await this.attest(stamp, request, outcome);
    sendJson(reply, 200, more + evidence === '' ? response : `${response.slice(0, -1)}${more}${evidence}}`);
  }

  private async attest(stamp: string, request: AttestedRequest, outcome: AttestedOutcome): Promise<string> {
    const { artifact, body, reservationId } = request;
    const reference = await this.evidence.issue({
      artifact,
      stamp,
      payload: {
        ...(reservationId === undefined ? {} : { reservation_id: reservationId }),
        request: attestedRequest(body),
        response: readJson(outcome.response),
      },
      isReplay: outcome.answer === 'replay',
      owner: this.ownerOf(request),
      reservationId: outcome.reservationId,
    });
    return reference === undefined || !seesEvidence(request.operation.caller)
      ? ''
      : `,"cycles_evidence":${JSON.stringify(reference)}`;
  }

  private async attestDenial(error: unknown, request: AttestedRequest): Promise<void> {
    if (!(error instanceof Refusal) || error.stamp === undefined || !isDenial(error, request)) {
      return;
    }
    const { artifact, operation, body, reservationId } = request;
    const { status, text } = refusalResponse(error, operation.trace);
    const reference = await this.evidence.issue({
      artifact: 'error',
      stamp: error.stamp,
      payload: {
        endpoint: ENDPOINTS[artifact],
        http_status: status,
        ...(reservationId === undefined ? {} : { reservation_id: reservationId }),
        ...(isSmall(body) ? { request: attestedRequest(body) } : {}),
        response: readJson(text),
      },
      isReplay: false,
      owner: this.ownerOf(request),
    });
    if (reference !== undefined && seesEvidence(operation.caller)) {
      error.evidence = reference;
    }
  }

  /** An operator's release counts against the operators, in the partition of the reservation. */
  private ownerOf({ operation, reservationId }: AttestedRequest): { tag: string; tenantId: string } {
    const { caller } = operation;
    const { partitions } = this.redis;
    const tenantId = caller.kind === 'tenant' ? caller.tenantId : SYSTEM_OWNER;
    const tag = reservationId === undefined ? undefined : tagOfReservationId(reservationId, partitions);
    return { tag: tag ?? tagOf(partitionCode(partitionOfTenant(tenantId, partitions))), tenantId };
  }
}

/** The members of a request that an envelope has: those of cycles-protocol-v0, without its extensions. */
function attestedRequest(request: object): object {
  const { observe_mode: _mode, ...body } = request as { readonly observe_mode?: unknown };
  if (!('action' in body)) {
    return body;
  }
  const { policy_keys: _, ...action } = body.action as { readonly policy_keys?: unknown };
  return { ...body, action };
}

/** Whether the evidence of a denial includes the request. Not if it has no canonical form. */
function isSmall(body: object): boolean {
  try {
    return Buffer.byteLength(canonicalJson(body)) <= MAX_DENIED_REQUEST_BYTES;
  } catch {
    return false;
  }
}

/** A reserve without any budget is a denial, too. A request for a reservation that does not exist is not. */
function isDenial({ code }: Refusal, { artifact }: AttestedRequest): boolean {
  return DENIALS.has(code) || (code === 'NOT_FOUND' && artifact === 'reserve');
}
