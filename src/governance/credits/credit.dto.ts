import { IsIn, IsString } from 'class-validator';
import { BulkRequestDto } from '../../bulk/index.js';
import { DAY_MS, TENANT_ID_PATTERN, type Unit, UNITS } from '../../ledger/index.js';
import {
  instantMs,
  IsDateTime,
  IsFreeObject,
  IsInt,
  IsInt64,
  Length,
  Matches,
  MaxLength,
  Nested,
  Obeys,
  Optional,
} from '../../wire/index.js';
import { BudgetBulkFilterDto, BudgetLookupQueryDto, SCOPE_MAX_LENGTH } from '../budgets/budget.dto.js';

const NAME_LENGTH = 128;
const TEN_YEARS_MS = 3650 * DAY_MS;

/** What a member means here, where the word means something else elsewhere. */
export const Says = (description: string): PropertyDecorator =>
  Obeys({ name: 'says', test: () => true, schema: { description } });

class CreditAmountDto {
  @IsIn(UNITS)
  unit!: Unit;

  @IsInt64({ min: 1 })
  amount!: number | bigint;
}

/** What a credit is, whenever it begins and ends. */
class CreditDto {
  @Nested(() => CreditAmountDto)
  amount!: CreditAmountDto;

  @Length(1, NAME_LENGTH)
  name!: string;

  @Optional()
  @Says('Of what sort it is, in your words.')
  @Length(1, NAME_LENGTH)
  category?: string;

  @Optional()
  @Says('0 burns first, 100 last. Default 50.')
  @IsInt({ min: 0, max: 100 })
  priority?: number;

  @Optional()
  @Says('How long before its end `custom.credit.ending` comes, in ms. Without it, never.')
  @IsInt({ min: 1, max: TEN_YEARS_MS })
  notify_before_ms?: number;

  @Optional(IsFreeObject())
  metadata?: Record<string, unknown>;
}

/** What a credit is, whichever budget it is for. */
export class CreditTermsDto extends CreditDto {
  @Optional(IsDateTime())
  effective_at?: string;

  @Optional(IsDateTime())
  expires_at?: string;
}

/** What each budget of a template gets. */
export class TemplateCreditDto extends CreditDto {
  @Says('How long it burns, from the instant at which the budget gets it, in ms.')
  @IsInt({ min: 1, max: TEN_YEARS_MS })
  lasts_ms!: number;
}

export class CreditGrantDto extends CreditTermsDto {
  @Length(1, 256)
  idempotency_key!: string;

  @Matches(TENANT_ID_PATTERN)
  tenant_id!: string;

  @Length(1, SCOPE_MAX_LENGTH)
  scope!: string;

  @IsIn(UNITS)
  unit!: Unit;
}

export class CreditListQueryDto extends BudgetLookupQueryDto {
  @Optional(IsString())
  tenant_id?: string;
}

export class CreditVoidDto {
  @Optional(MaxLength(512))
  reason?: string;
}

export class CreditUpdateDto {
  @Optional(Length(1, NAME_LENGTH))
  name?: string;

  /** Null for no end. */
  @Optional()
  @Obeys({
    name: 'isDateTimeOrNull',
    test: (value) => value === null || (typeof value === 'string' && instantMs(value) !== undefined),
    schema: { type: 'string', format: 'date-time', nullable: true },
    phrase: 'a date and time with its offset, such as 2030-01-31T12:00:00Z, or null for no end',
  })
  expires_at?: string | null;
}

export class CreditBulkDto extends BulkRequestDto {
  @Nested(() => BudgetBulkFilterDto)
  filter!: BudgetBulkFilterDto;

  @Nested(() => CreditTermsDto)
  credit!: CreditTermsDto;
}
