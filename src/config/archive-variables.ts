import { days, flag, text } from './parsers.js';
import { optional, setting } from './variable.js';

export const ARCHIVE = {
  archiveDir: optional(
    'ARCHIVE_DIR',
    '(DATA_DIR/archive with the embedded Redis, else nothing is archived)',
    text,
  ).describe(
    'Directory that the charges, events and audit rows are archived to.',
    'Who has a Redis, and wants to know later where the money went.',
  ),
  archiveRetentionMs: setting('ARCHIVE_RETENTION_DAYS', '400', days(1, 36_500)).describe(
    'How long a published day of the archive is kept.',
    'Whose disk is small, or whose auditors ask for longer.',
  ),
  archiveMetadata: setting('ARCHIVE_METADATA', 'true', flag).describe(
    'false leaves the metadata of reservations and debits out of the archive.',
    'Whose metadata must not be kept for so long.',
  ),
};
