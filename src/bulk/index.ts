export {
  BulkActions,
  BulkActionsModule,
  BulkRequestDto,
  type BulkRun,
  type Changed,
  FAILED_ROW,
  requireFilter,
  type RowFailure,
} from './bulk-actions.js';
