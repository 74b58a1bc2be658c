import { Injectable } from '@nestjs/common';
import { type Caller, seesEvidence } from '../auth/index.js';
import { EvidenceService } from '../evidence/index.js';
import { refusalResponse } from '../http/index.js';
import { type ErrorCode, Refusal } from '../ledger/index.js';
import { RedisService, SYSTEM_OWNER, tagOfReservationId, tagOfTenant } from '../redis/index.js';
import { canonicalJson, readJson } from '../wire/index.js';
import type { Operation } from './admission.js';
import { attestable } from './given-fields.js';
import { type Artifact, ATTESTED_ENDPOINTS, type Outcome } from './ledger-operation.js';

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

/** A call whose outcome may be attested, with its valid body. */
export interface AttestedCall {
  readonly artifact: Artifact | undefined;
  readonly call: Operation<Caller> & { readonly reservationId?: string };
  readonly body: object;
}

/** The whole response as JSON text. @param evidence further members, each after a comma */
export function responseText({ response, unattested }: Outcome, evidence: string): string {
  const more = unattested === undefined ? evidence : `,${unattested}${evidence}`;
  return more === '' ? response : `${response.slice(0, -1)}${more}}`;
}

/** Adds the reference to its evidence to the response of an operation, if evidence is issued. */
@Injectable()
export class AttestedAnswers {
  constructor(
    private readonly evidence: EvidenceService,
    private readonly redis: RedisService,
  ) {}

  /** The whole response of an attestable outcome as JSON text. */
  async responseWithReference(outcome: Outcome, attested: AttestedCall): Promise<string> {
    return responseText(outcome, await this.attest(outcome.stamp ?? '', attested, outcome));
  }

  private async attest(stamp: string, attested: AttestedCall, outcome: Outcome): Promise<string> {
    const { artifact, call, body } = attested;
    const { reservationId } = call;
    if (artifact === undefined) {
      return '';
    }
    const reference = await this.evidence.issue({
      artifact,
      stamp,
      payload: {
        ...(reservationId === undefined ? {} : { reservation_id: reservationId }),
        request: attestedRequest(body),
        response: readJson(outcome.response),
      },
      isReplay: outcome.answer === 'replay',
      owner: this.ownerOf(call),
      reservationId: outcome.reservationId,
    });
    return reference === undefined || !seesEvidence(call.caller)
      ? ''
      : `,"cycles_evidence":${JSON.stringify(reference)}`;
  }

  /** Gives a denial the reference to its evidence. */
  async attestDenial(refusal: Refusal, { artifact, call, body }: AttestedCall): Promise<void> {
    if (artifact === undefined || refusal.stamp === undefined || !isDenial(refusal, artifact)) {
      return;
    }
    const { reservationId } = call;
    const { status, text } = refusalResponse(refusal, call.trace);
    const reference = await this.evidence.issue({
      artifact: 'error',
      stamp: refusal.stamp,
      payload: {
        endpoint: ATTESTED_ENDPOINTS[artifact],
        http_status: status,
        ...(reservationId === undefined ? {} : { reservation_id: reservationId }),
        ...(isSmall(body) ? { request: attestedRequest(body) } : {}),
        response: readJson(text),
      },
      isReplay: false,
      owner: this.ownerOf(call),
    });
    if (reference !== undefined && seesEvidence(call.caller)) {
      refusal.evidence = reference;
    }
  }

  /** An operator's release counts against the operators, in the partition of the reservation. */
  private ownerOf({ caller, reservationId }: AttestedCall['call']): { tag: string; tenantId: string } {
    const { partitions } = this.redis;
    const tenantId = caller.kind === 'tenant' ? caller.tenantId : SYSTEM_OWNER;
    const tag = reservationId === undefined ? undefined : tagOfReservationId(reservationId, partitions);
    return { tag: tag ?? tagOfTenant(tenantId, partitions), tenantId };
  }
}

/** The members of a request that an envelope has: those of cycles-protocol-v0, without its extensions. */
function attestedRequest(request: object): object {
  const { observe_mode: _, ...body } = request as Record<string, unknown>;
  return attestable(body);
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
function isDenial({ code }: Refusal, artifact: Artifact): boolean {
  return DENIALS.has(code) || (code === 'NOT_FOUND' && artifact === 'reserve');
}
