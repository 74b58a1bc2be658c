import { IsString } from 'class-validator';
import { Length } from '../../http/index.js';

/** ApiKeyValidationRequest of cycles-governance-admin-v0.1.25. */
export class ApiKeyValidationDto {
  @IsString()
  @Length(0, 1024)
  key_secret!: string;
}
