import { ArrayMaxSize, IsArray, IsIn, IsInt, Max, Min } from 'class-validator';
import { EVENT_TYPES } from '../../events/index.js';
import { IsDateTime, Optional } from '../../wire/index.js';

const MAX_TYPES = 100;
export const MAX_EVENTS = 1000;

/** The body of replayEvents of cycles-governance-admin-v0.1.25. Both bounds are included. */
export class ReplayDto {
  @Optional()
  @IsDateTime()
  from?: string;

  @Optional()
  @IsDateTime()
  to?: string;

  @Optional()
  @IsArray()
  @ArrayMaxSize(MAX_TYPES)
  @IsIn(EVENT_TYPES, { each: true })
  event_types?: string[];

  @Optional()
  @IsInt()
  @Min(1)
  @Max(MAX_EVENTS)
  max_events?: number;
}
