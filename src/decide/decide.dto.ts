import { Nested } from '../http/index.js';
import { AdmissionDto, AmountDto } from '../reservations/index.js';

/** DecisionRequest of the protocol. */
export class DecideDto extends AdmissionDto {
  @Nested(() => AmountDto)
  estimate!: AmountDto;
}
