import { IsString } from 'class-validator';
import { MaxLength } from '../wire/index.js';

export class LogInDto {
  /** ADMIN_API_KEY or VIEWER_API_KEY. */
  @IsString()
  @MaxLength(1024)
  key!: string;
}
