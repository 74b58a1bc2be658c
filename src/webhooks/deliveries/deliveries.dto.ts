import { IsIn } from 'class-validator';
import { WindowQueryDto } from '../../governance/listing/index.js';
import { Optional } from '../../http/index.js';
import { DELIVERY_STATUSES, type DeliveryStatus } from './delivery.js';

/** The query of listWebhookDeliveries. The window is that of the time at which deliveries were queued. */
export class DeliveryListQueryDto extends WindowQueryDto {
  @Optional()
  @IsIn(DELIVERY_STATUSES)
  status?: DeliveryStatus;
}
