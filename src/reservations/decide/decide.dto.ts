import { Nested } from '../../wire/index.js';
import { AdmissionDto, AmountDto } from '../request-parts.dto.js';

/** DecisionRequest of the protocol. */
export class DecideDto extends AdmissionDto {
  @Nested(() => AmountDto)
  estimate!: AmountDto;
}
