/** Why the store could not answer. Except for `memory`, the operation may have been executed. */
export type StoreUnavailableReason =
  | 'connection'
  | 'timeout'
  | 'memory'
  | 'loading'
  | 'readonly'
  | 'cluster'
  | 'persistence'
  | 'replicas'
  | 'permission'
  | 'backlog'
  | 'quarantine';

const RETRY_AFTER_S: Readonly<Record<StoreUnavailableReason, number>> = {
  connection: 1,
  timeout: 1,
  memory: 5,
  loading: 2,
  readonly: 1,
  cluster: 1,
  persistence: 5,
  replicas: 5,
  permission: 5,
  backlog: 1,
  quarantine: 60,
};

const EXPLANATION: Readonly<Record<StoreUnavailableReason, string>> = {
  connection: 'the store cannot be reached',
  timeout: 'the store did not answer in time',
  memory: 'the store is out of memory for operations that grow it',
  loading: 'the store is loading its data',
  readonly: 'the store is read-only while it fails over',
  cluster: 'the store cluster is rearranging its slots',
  persistence: 'the store cannot persist its data',
  replicas: 'the store has too few replicas to accept writes',
  permission: 'the user of the store may not run a command that this needs',
  backlog: 'expired holds are still being reclaimed, and the budget depends on them',
  quarantine: 'the record of the reservation is damaged and must be repaired by an operator',
};

/** Redis is unreachable, or refuses commands because of its own state. Clients may retry with the same idempotency key. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
  /** For the `Retry-After` header, in seconds. */
  readonly retryAfterS: number;

  constructor(
    readonly reason: StoreUnavailableReason,
    cause?: unknown,
  ) {
    super(EXPLANATION[reason], { cause });
    this.retryAfterS = RETRY_AFTER_S[reason];
  }

  /** The reply with which Redis refused to serve, which needs somebody's attention unless it soon serves again. */
  get refusal(): string | undefined {
    const { cause } = this;
    return cause instanceof Error && cause.name === 'ReplyError' ? cause.message : undefined;
  }
}

/** The service cannot start with this store. The message is one line for the operator, without secrets. */
export class StoreBootError extends Error {
  override readonly name = 'StoreBootError';
}

/** By the first word of an error reply, which is stable, even for errors from within scripts. */
const BY_REPLY_CODE: ReadonlyMap<string, StoreUnavailableReason> = new Map([
  ['OOM', 'memory'],
  ['LOADING', 'loading'],
  ['READONLY', 'readonly'],
  ['MASTERDOWN', 'readonly'],
  ['CLUSTERDOWN', 'cluster'],
  ['TRYAGAIN', 'cluster'],
  ['MOVED', 'cluster'],
  ['ASK', 'cluster'],
  ['BUSY', 'timeout'],
  ['MISCONF', 'persistence'],
  ['NOREPLICAS', 'replicas'],
  ['NOPERM', 'permission'],
  ['UNBLOCKED', 'readonly'],
  ['NOAUTH', 'connection'],
  ['WRONGPASS', 'connection'],
]);

const BY_MESSAGE: ReadonlyArray<readonly [start: string, reason: StoreUnavailableReason]> = [
  ['Command timed out', 'timeout'],
  ['Socket timeout.', 'timeout'],
  ['Connection is closed', 'connection'],
  ["Stream isn't writeable", 'connection'],
  ['connect ETIMEDOUT', 'connection'],
  ['All sentinels are unreachable', 'connection'],
  ['None of startup nodes is available', 'connection'],
  ['Failed to refresh slots cache', 'connection'],
  ["Cluster isn't ready", 'connection'],
  ['Cluster is ', 'connection'],
  ['Too many Cluster redirections', 'cluster'],
  ['ERR max number of clients reached', 'connection'],
  ['EXECABORT Transaction discarded because of: OOM', 'memory'],
];

/** What a script may not call, in Redis 7.0 and since 7.2. A grouped script puts ERR before it once more. */
const DENIED_IN_SCRIPT = /^(?:ERR ){1,2}(?:The user executing the script can't|ACL failure in script)/;

const BY_NAME: ReadonlyMap<string, StoreUnavailableReason> = new Map([
  ['MaxRetriesPerRequestError', 'connection'],
  ['ClusterAllFailedError', 'connection'],
  ['AbortError', 'connection'],
  ['InterruptError', 'connection'],
  ['ParserError', 'connection'],
]);

const SOCKET_CODES: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_WRITE_AFTER_END',
]);

function reasonOf(error: Error): StoreUnavailableReason | undefined {
  const byName = BY_NAME.get(error.name);
  if (byName !== undefined) {
    return byName;
  }
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (code !== undefined && (SOCKET_CODES.has(code) || syscall === 'connect')) {
    return 'connection';
  }
  const known = BY_MESSAGE.find(([start]) => error.message.startsWith(start));
  if (known !== undefined) {
    return known[1];
  }
  if (DENIED_IN_SCRIPT.test(error.message)) {
    return 'permission';
  }
  return error.name === 'ReplyError' ? BY_REPLY_CODE.get(error.message.split(' ', 1)[0] ?? '') : undefined;
}

/**
 * Converts an error of ioredis or Redis to StoreUnavailable if the store caused it. Returns every other error as it is: WRONGTYPE or an
 * error in a script is a defect and must surface as one.
 */
export function toStoreError(error: unknown): unknown {
  if (error instanceof StoreUnavailable || !(error instanceof Error)) {
    return error;
  }
  const reason = reasonOf(error);
  return reason === undefined ? error : new StoreUnavailable(reason, error);
}

/** The result of a plain command. @throws StoreUnavailable, and every other error of the command. */
export async function orStoreError<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw toStoreError(error);
  }
}
