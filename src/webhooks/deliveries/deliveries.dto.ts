import { IsIn, IsInt, IsString, Min } from 'class-validator';
import { IsWindowBound, MaxLength, Optional } from '../../http/index.js';
import { DELIVERY_STATUSES, type DeliveryStatus } from './delivery.js';

/** The query of listWebhookDeliveries. The window is that of the time at which deliveries were queued, both bounds included. */
export class DeliveryListQueryDto {
  @Optional()
  @IsIn(DELIVERY_STATUSES)
  status?: DeliveryStatus;

  @Optional()
  @IsWindowBound()
  from?: string;

  @Optional()
  @IsWindowBound()
  to?: string;

  @Optional()
  @IsString()
  @MaxLength(2048)
  cursor?: string;

  @Optional()
  @IsInt()
  @Min(1)
  limit?: number;
}
