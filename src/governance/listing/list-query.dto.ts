import { IsIn, IsInt, IsString, Min } from 'class-validator';
import { MaxLength, Optional } from '../../http/index.js';

/** What every list of the governance plane takes. */
export class ListQueryDto {
  @Optional()
  @IsString()
  @MaxLength(128)
  search?: string;

  @Optional()
  @IsIn(['asc', 'desc'])
  sort_dir?: 'asc' | 'desc';

  @Optional()
  @IsString()
  @MaxLength(2048)
  cursor?: string;

  @Optional()
  @IsInt()
  @Min(1)
  limit?: number;
}

/** Whether one of the texts holds what is searched for, upper and lower case alike; an empty search finds all. */
export function found(search: string | undefined, ...texts: readonly string[]): boolean {
  const wanted = search?.toLowerCase() ?? '';
  return wanted === '' || texts.some((text) => text.toLowerCase().includes(wanted));
}
