import { ArrayMaxSize, IsBoolean, IsIn } from 'class-validator';
import { type Unit, UNITS } from '../../ledger/index.js';
import { IsInt64, Length, Nested, NestedArray, Optional } from '../../wire/index.js';

const MOST_AMOUNTS = 20;
const MOST_EVENTS = 100;

/** What members of an event's payload must equal. */
export class PayloadFilterDto {
  @Optional(IsIn(UNITS))
  unit?: Unit;

  @Optional(Length(1, 64))
  action_kind?: string;

  /** The state that the subject of the event has afterwards, such as `FROZEN`. */
  @Optional(Length(1, 64))
  state?: string;
}

/** A threshold in a unit. Scripts compare amounts as doubles, so it has at most 53 bits. */
export class UsedAmountDto {
  @IsIn(UNITS)
  unit!: Unit;

  @IsInt64({ min: 1, max: Number.MAX_SAFE_INTEGER })
  amount!: number;
}

/** What a subscription can do beyond the protocol, whose schemas allow no further members. An absent member is its default. */
export class SubscriptionOptionsDto {
  /** Whether an answer of 410 Gone disables the subscription at once. */
  @Optional(IsBoolean())
  end_on_gone?: boolean;

  /** Whether a threshold is told only when a budget reaches it for the first time in its period. */
  @Optional(IsBoolean())
  thresholds_once_a_period?: boolean;

  /** How many consecutive events a request carries at most. With more than 1, its body is `{"events":[...]}`. */
  @Optional(IsInt64({ min: 1, max: MOST_EVENTS }))
  events_per_request?: number;

  @Optional(Nested(() => PayloadFilterDto))
  payload_filter?: PayloadFilterDto;

  /** Amounts whose crossing by spent + reserved of a budget is an event, beside the shares in `thresholds`. */
  @Optional()
  @ArrayMaxSize(MOST_AMOUNTS)
  @NestedArray(() => UsedAmountDto)
  used_amounts?: UsedAmountDto[];
}
