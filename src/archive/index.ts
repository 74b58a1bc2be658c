export { ArchiveModule } from './archive.module.js';
export { type Epoch } from './archive-identity.js';
export { readPlaces } from './archive-places.js';
export { type ArchiveReading, readArchive, type Superseded, supersededOf } from './archive-reading.js';
export { earlierEpochs, placeOf } from './archive-staging.js';
export {
  ArchiveFolder,
  type ArchiveGap,
  type ArchivePlaces,
  daysFromTo,
  type Manifest,
  manifestText,
  type PublishedFile,
} from './archive-folder.js';
export { CHARGE_COLUMNS } from './charge-columns.js';
export { contentOf, rewritten, SORT_BY } from './day-publisher.js';
export { doubt, faultOf } from './file-faults.js';
export { ARCHIVED, type Archived, type EntryId, FIRST, msOf } from './entry-chain.js';
export { DamagedFile, ParquetThread } from './parquet-thread.js';
export { newSpill, SPILL_PREFIX } from './spill.js';
export { STREAM_COLUMNS } from './stream-columns.js';
