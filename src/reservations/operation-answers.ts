import { Injectable } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import type { Caller } from '../auth/index.js';
import { sendJson } from '../http/index.js';
import { Refusal } from '../ledger/index.js';
import { requireSameKey } from './admission.js';
import { type AttestedCall, AttestedAnswers, responseText } from './attested-answers.js';
import { asksToExplain, FundsForecast, type Wanted } from './funds-forecast.js';
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
    const asked = { artifact: operation.artifact, call, body };
    let outcome: Outcome;
    try {
      outcome = await operation.perform(call, body);
    } catch (error) {
      if (error instanceof Refusal) {
        await this.complete(error, asked, explains ? operation.wanted?.(body, call) : undefined);
      }
      throw error;
    }
    return this.textOf(outcome, asked);
  }

  /** The whole response as JSON text. */
  async textOf(outcome: Outcome, asked: AttestedCall): Promise<string> {
    return outcome.stamp === undefined
      ? responseText(outcome, '')
      : this.evidence.responseWithReference(outcome, asked);
  }

  /** Gives a denial the reference to its evidence. @param wanted to explain it by */
  async complete(refusal: Refusal, asked: AttestedCall, wanted: Wanted | undefined): Promise<void> {
    await this.evidence.attestDenial(refusal, asked);
    if (wanted !== undefined) {
      await this.forecast.explain(refusal, wanted);
    }
  }
}
