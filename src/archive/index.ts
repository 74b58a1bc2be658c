export {
  ArchiveFolder,
  type ArchiveGap,
  type ArchivePlace,
  type ArchivePlaces,
  type ArchiveReading,
} from './archive-folder.js';
export { type ArchiveColumn, CHARGE_COLUMNS, type ColumnType } from './charge-columns.js';
