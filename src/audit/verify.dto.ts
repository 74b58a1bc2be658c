import { IsString } from 'class-validator';
import { Length, Optional } from '../http/index.js';

/** Query of GET /ops/verify. Without a tenant all are verified, a page at a time. */
export class VerifyQueryDto {
  @Optional()
  @IsString()
  @Length(1, 64)
  tenant?: string;

  @Optional()
  @IsString()
  cursor?: string;
}
