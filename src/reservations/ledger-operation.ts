import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyRequest } from 'fastify';
import type { Caller, TenantCaller } from '../auth/index.js';
import { invalidField } from '../ledger/index.js';
import type { Operation } from './admission.js';
import type { Wanted } from './funds-forecast.js';
import { CHARGE_HEADER } from './operation-headers.js';

/** What a client asks of an operation: in a request of its own, or in a batch. */
export interface Call<Who extends Caller = TenantCaller> extends Operation<Who> {
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
}

/** A call that names a reservation: in the path, or beside its body in a batch. */
export interface SettlementCall<Who extends Caller = TenantCaller> extends Call<Who> {
  readonly reservationId: string;
}

/** An endpoint that also accepts the admin key uses `callOf<Caller>`. */
export function callOf<Who extends Caller = TenantCaller>(request: FastifyRequest): Call<Who> {
  const { trace, headers, body } = request;
  return { caller: request.caller as Who, trace, headers, body };
}

/** Headers that say something of one operation, and why a request with several cannot have them. */
const HEADERS_OF_ONE: Readonly<Record<string, string>> = {
  'X-Holdfast-Wait-Ms': 'several operations do not wait for funds',
  [CHARGE_HEADER]: 'give it in the `headers` of each reserve',
  'X-Idempotency-Key': 'each operation has an idempotency_key of its own',
};

/** @throws Refusal INVALID_REQUEST */
export function refuseHeadersOfOne({ headers }: FastifyRequest): void {
  for (const [name, why] of Object.entries(HEADERS_OF_ONE)) {
    if (headers[name.toLowerCase()] !== undefined) {
      throw invalidField(name, `${name} is not possible here: ${why}`);
    }
  }
}

/** A successful outcome. */
export interface Outcome {
  /** Of an operation whose outcome can be attested. */
  readonly stamp?: string | undefined;
  readonly answer: 'fresh' | 'observed' | 'replay';
  /** The response as JSON text, with what evidence attests. */
  readonly response: string;
  /** Further members of the response, which evidence has no place for, as `"name":value`. */
  readonly unattested?: string | undefined;
  /** The reservation that was made or settled. */
  readonly reservationId?: string | undefined;
}

/** The operations of which there is evidence, and their endpoints there. */
export const ATTESTED_ENDPOINTS = {
  decide: 'POST /v1/decide',
  reserve: 'POST /v1/reservations',
  commit: 'POST /v1/reservations/{reservation_id}/commit',
  release: 'POST /v1/reservations/{reservation_id}/release',
} as const;

export type Artifact = keyof typeof ATTESTED_ENDPOINTS;

/** One kind of operation: what its calls do, however they come. `OperationAnswers` makes the calls. */
export interface LedgerOperation<Body, Given extends Call<Caller> = Call> {
  /** The status of a successful response. */
  readonly status: number;
  readonly artifact?: Artifact;
  /** @throws Refusal INVALID_REQUEST */
  validate(body: unknown): Body;
  /** What a call wanted, to explain its refusal. Without it, refusals are not explained. */
  wanted?(body: Body, call: Given): Wanted;
  /** @throws Refusal, StoreUnavailable */
  perform(call: Given, body: Body): Promise<Outcome>;
}
