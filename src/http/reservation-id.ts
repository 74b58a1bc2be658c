import { Param, type PipeTransform } from '@nestjs/common';
import { ApiParam } from '@nestjs/swagger';
import { Refusal } from '../ledger/index.js';

/** ReservationId of cycles-protocol-v0. */
const RESERVATION_ID_MAX_LENGTH = 128;

/** Counts code points, as JSON Schema does. */
const withinBounds: PipeTransform<string, string> = {
  transform(id) {
    if (id === '' || Array.from(id).length > RESERVATION_ID_MAX_LENGTH) {
      throw new Refusal(
        'INVALID_REQUEST',
        `reservation_id must be a string of 1 to ${RESERVATION_ID_MAX_LENGTH} characters`,
        { field: 'reservation_id' },
      );
    }
    return id;
  },
};

/** The id of a reservation in the path. Answers 400 outside the length limits of the protocol, before any look-up. */
export function ReservationId(): ParameterDecorator {
  return (target, method, index) => {
    Param('reservation_id', withinBounds)(target, method, index);
    const descriptor = Object.getOwnPropertyDescriptor(target, method as string) as PropertyDescriptor;
    ApiParam({
      name: 'reservation_id',
      schema: { type: 'string', minLength: 1, maxLength: RESERVATION_ID_MAX_LENGTH },
    })(target, method as string, descriptor);
  };
}
