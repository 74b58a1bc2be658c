export { ArchiveModule } from './archive.module.js';
export { readPlaces } from './archive-places.js';
export {
  ArchiveFolder,
  type ArchiveGap,
  type ArchivePlace,
  type ArchivePlaces,
  type ArchiveReading,
} from './archive-folder.js';
export { type ArchiveColumn, CHARGE_COLUMNS, type ColumnType } from './charge-columns.js';
