import { Injectable } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import type { Caller } from '../auth/index.js';
import { sendJson } from '../http/index.js';
import { Refusal } from '../ledger/index.js';
import { requireSameKey } from './admission.js';
import { AttestedAnswers, responseText } from './attested-answers.js';
import { asksToExplain, FundsForecast } from './funds-forecast.js';
import type { Call, LedgerOperation, Outcome } from './ledger-operation.js';

/** The one way of every operation of the runtime plane, from the body of a call to its response. */
@Injectable()
export class OperationAnswers {
  constructor(
    private readonly evidence: AttestedAnswers,
    private readonly forecast: FundsForecast,
  ) {}

  /** Answers a request. @throws as `answer` */
  async send<Body extends { readonly idempotency_key: string }, Given extends Call<Caller>>(
    reply: FastifyReply,
    operation: LedgerOperation<Body, Given>,
    call: Given,
  ): Promise<void> {
    sendJson(reply, operation.status, await this.answer(operation, call));
  }

  /**
   * @returns the response as JSON text, with the reference to its evidence
   * @throws Refusal: a denial has the reference to its evidence, and is explained if the client asks for that; StoreUnavailable
   */
  async answer<Body extends { readonly idempotency_key: string }, Given extends Call<Caller>>(
    operation: LedgerOperation<Body, Given>,
    call: Given,
  ): Promise<string> {
    const body = operation.validate(call.body);
    requireSameKey(call, body.idempotency_key);
    const explains = operation.wanted !== undefined && asksToExplain(call);
    let outcome: Outcome;
    try {
      outcome = await operation.perform(call, body);
    } catch (error) {
      if (error instanceof Refusal) {
        await this.evidence.attestDenial(error, { artifact: operation.artifact, call, body });
        if (explains && operation.wanted !== undefined) {
          await this.forecast.explain(error, operation.wanted(body, call));
        }
      }
      throw error;
    }
    return outcome.stamp === undefined
      ? responseText(outcome, '')
      : this.evidence.responseWithReference(outcome, { artifact: operation.artifact, call, body });
  }
}
