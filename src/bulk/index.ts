export {
  type BulkAction,
  BulkActions,
  BulkActionsModule,
  type BulkRun,
  type Changed,
  FAILED_ROW,
  requireFilter,
  type RowFailure,
} from './bulk-actions.js';
export { BulkRequestDto } from './bulk-request.dto.js';
