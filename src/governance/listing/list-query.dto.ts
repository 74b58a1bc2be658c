import { IsIn, IsInt, IsString, Min } from 'class-validator';
import { IsWindowBound, MaxLength, Optional } from '../../http/index.js';

/** What every list takes that is given out page by page. */
export class PageQueryDto {
  @Optional()
  @IsString()
  @MaxLength(2048)
  cursor?: string;

  @Optional()
  @IsInt()
  @Min(1)
  limit?: number;
}

/** The same of lists over time, whose window holds both its bounds. */
export class WindowQueryDto extends PageQueryDto {
  @Optional()
  @IsWindowBound()
  from?: string;

  @Optional()
  @IsWindowBound()
  to?: string;
}

/** What every list of the governance plane takes that can be searched. */
export class ListQueryDto extends PageQueryDto {
  @Optional()
  @IsString()
  @MaxLength(128)
  search?: string;

  @Optional()
  @IsIn(['asc', 'desc'])
  sort_dir?: 'asc' | 'desc';
}

/** Whether one of the texts holds what is searched for, upper and lower case alike; an empty search finds all. */
export function found(search: string | undefined, ...texts: readonly string[]): boolean {
  const wanted = search?.toLowerCase() ?? '';
  return wanted === '' || texts.some((text) => text.toLowerCase().includes(wanted));
}
