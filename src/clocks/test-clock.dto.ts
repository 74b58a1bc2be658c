import { IsString } from 'class-validator';
import { IsDateTime, Length } from '../wire/index.js';

/** Body of POST /ops/test-clocks. */
export class TestClockCreateDto {
  @IsString()
  @Length(1, 256)
  name!: string;

  /** The instant at which the clock stands still. */
  @IsDateTime()
  now!: string;
}

/** Body of POST /ops/test-clocks/{clock_id}/advance. */
export class TestClockAdvanceDto {
  @IsDateTime()
  to!: string;
}
