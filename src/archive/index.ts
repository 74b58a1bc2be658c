export { ArchiveModule } from './archive.module.js';
export { readIdentity } from './archive-identity.js';
export { readPlaces } from './archive-places.js';
export {
  type Archived,
  ARCHIVED,
  ArchiveFolder,
  type ArchiveGap,
  type ArchivePlace,
  type ArchivePlaces,
  type ArchiveReading,
  DAY_MS,
  daysFromTo,
  faultOf,
  type Manifest,
  type PublishedFile,
} from './archive-folder.js';
export { type ArchiveColumn, CHARGE_COLUMNS, type ColumnType } from './charge-columns.js';
export { contentOf, SORT_BY } from './day-publisher.js';
export { type EntryId, FIRST, msOf } from './entry-chain.js';
export { ParquetThread } from './parquet-thread.js';
export { STREAM_COLUMNS } from './stream-columns.js';
