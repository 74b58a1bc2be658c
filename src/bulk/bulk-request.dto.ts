import { IsInt, IsString, Min } from 'class-validator';
import { Length, Optional } from '../wire/index.js';

/** The members that the requests of all bulk actions have in common, beside `filter` and `action`. */
export class BulkRequestDto {
  @Optional()
  @IsInt()
  @Min(0)
  expected_count?: number;

  @IsString()
  @Length(1, 128)
  idempotency_key!: string;
}
