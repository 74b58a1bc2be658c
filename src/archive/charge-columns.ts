/** Types as DuckDB names them. A VARCHAR is a UTF-8 text in Parquet, a TIMESTAMP one in milliseconds of UTC. Each may be null. */
export type ColumnType = 'VARCHAR' | 'INTEGER' | 'BIGINT' | 'TIMESTAMP';

export interface ArchiveColumn {
  readonly name: string;
  readonly type: ColumnType;
  readonly describes: string;
}

const column = <const Name extends string>(name: Name, type: ColumnType, describes: string) =>
  ({ name, type, describes }) satisfies ArchiveColumn;

/** Files of 0.7 lack it, and what stands behind it: all are of the first epoch. */
export const EPOCH = column(
  'epoch',
  'INTEGER',
  'The epoch of the archive in which the row was written, from 1. A later one in `archive.json` supersedes the rows after its `restored_to`.',
);

/**
 * The columns of `charges.parquet`, in the order of the file: a row for each entry of the journal, which is each end of a reservation, each
 * direct debit, each refund, and each record that was mended. Texts in JSON are marked as such.
 *
 * A sum over charges leaves out `source = 'CORRECTION'`, and counts a row at the scopes whose digit in `scope_mask` is 1: then it is `spent +
 * debt` of their budgets. A refund charges less than 0, so that each sum is net.
 */
export const CHARGE_COLUMNS = [
  column('partition', 'INTEGER', 'The partition, from 0.'),
  column(
    'entry',
    'VARCHAR',
    "The entry's id in the partition's journal: `ms-sequence`, unique in the partition.",
  ),
  column('record_id', 'VARCHAR', 'The id of the reservation or of the direct debit.'),
  column(
    'source',
    'VARCHAR',
    'RESERVATION, DIRECT_DEBIT, REFUND, or CORRECTION, which tells of a mended record and charges nothing.',
  ),
  column(
    'state',
    'VARCHAR',
    'COMMITTED, RELEASED or EXPIRED; APPLIED for a direct debit; REFUNDED for a refund; null if the record was damaged.',
  ),
  column('recorded_at', 'TIMESTAMP', "When the entry was appended. A row belongs to this instant's UTC day."),
  column(
    'ended_at',
    'TIMESTAMP',
    'When the reservation ended, the debit was applied, or the refund was made.',
  ),
  column('created_at', 'TIMESTAMP', 'When the reservation was made, or the debit was applied.'),
  column('tenant', 'VARCHAR', 'The tenant that was charged.'),
  column('scope', 'VARCHAR', 'The most specific scope, such as `tenant:acme/app:chat/agent:sam`.'),
  column('workspace', 'VARCHAR', "The subject's workspace, in lower case as in `scope`."),
  column('app', 'VARCHAR', "The subject's app, in lower case as in `scope`."),
  column('workflow', 'VARCHAR', "The subject's workflow, in lower case as in `scope`."),
  column('agent', 'VARCHAR', "The subject's agent, in lower case as in `scope`."),
  column('toolset', 'VARCHAR', "The subject's toolset, in lower case as in `scope`."),
  column(
    'scope_mask',
    'VARCHAR',
    'A digit for each scope from the tenant down to `scope`: 1 if it had a budget that was charged.',
  ),
  column('unit', 'VARCHAR', 'USD_MICROCENTS, TOKENS, CREDITS or RISK_POINTS.'),
  column(
    'reserved',
    'BIGINT',
    'The amount that the reservation held; 0 for a direct debit and for a refund.',
  ),
  column('charged', 'BIGINT', 'What each scope in `scope_mask` was charged; negative for a refund.'),
  column('actual', 'BIGINT', 'What the client reported; null unless it committed or debited.'),
  column('debt', 'BIGINT', 'What the budgets could not pay of the charge, added up over the scopes.'),
  column('overage_policy', 'VARCHAR', 'What was to happen to a charge above the estimate.'),
  column('action_kind', 'VARCHAR', "The action's kind."),
  column('action_name', 'VARCHAR', "The action's name."),
  column('action_tags', 'VARCHAR', 'A JSON array of texts.'),
  column('dimensions', 'VARCHAR', "The subject's dimensions, a JSON object of texts."),
  column('metadata', 'VARCHAR', 'Metadata of the reserve or the debit, a JSON object.'),
  column('commit_metadata', 'VARCHAR', 'Metadata of the commit, a JSON object.'),
  column('key_id', 'VARCHAR', 'The API key that reserved or debited.'),
  column(
    'ended_by',
    'VARCHAR',
    'The API key that committed, released or refunded; system for an expiry; admin for an operator.',
  ),
  column('reason', 'VARCHAR', 'Why the reservation was released or refunded, as the client said.'),
  column('idempotency_key', 'VARCHAR', 'Of the reserve or the debit.'),
  column(
    'request_id',
    'VARCHAR',
    'The request that committed, released, debited or refunded; null if none did.',
  ),
  column('trace_id', 'VARCHAR', 'The trace of that request.'),
  column('model_version', 'VARCHAR', "From the commit's metrics."),
  column('tokens_input', 'BIGINT', "From the commit's metrics."),
  column('tokens_output', 'BIGINT', "From the commit's metrics."),
  column('latency_ms', 'BIGINT', "From the commit's metrics."),
  column('custom_metrics', 'VARCHAR', "What else the commit's metrics had, a JSON object."),
  EPOCH,
  column(
    'credits',
    'VARCHAR',
    'What which credits paid of the charge at all scopes, a JSON object of amounts by credit id; null if none did. What a refund gave back to credits is negative.',
  ),
] as const;
