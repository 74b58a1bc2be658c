import { type DestinationStream, type Logger, type LoggerOptions, pino, stdSerializers } from 'pino';

export type { Logger } from 'pino';

/** Injects the process-wide pino logger. */
export const LOGGER = Symbol('LOGGER');

const SECRET_FIELDS = [
  'authorization',
  'Authorization',
  '["x-cycles-api-key"]',
  '["x-admin-api-key"]',
  '["X-Cycles-API-Key"]',
  '["X-Admin-API-Key"]',
  'cookie',
  'key_secret',
  'keySecret',
  'adminApiKey',
  'admin_api_key',
  'password',
  'sentinelPassword',
  'signing_secret',
  'webhookSecretEncryptionKey',
];

/** Pino redacts at fixed depths, so each secret has a path at the top level and at three levels below it. */
const SECRET_PATHS = SECRET_FIELDS.flatMap((field) => {
  const below = field.startsWith('[') ? field : `.${field}`;
  return [field, `*${below}`, `*.*${below}`, `*.*.*${below}`];
});

/** Replaces the user and password of each URL in a text. */
export function withoutUrlCredentials(text: string): string {
  return text.replace(/([a-z][a-z0-9+.-]*:\/\/)[^\s/@]*@/gi, '$1[redacted]@');
}

/** Removes the credentials of URLs and the arguments of Redis commands from an error. */
function serializeError(error: unknown): unknown {
  if (!(error instanceof Error)) {
    return error;
  }
  const serialized: Record<string, unknown> = { ...stdSerializers.err(error) };
  // ioredis attaches the failed command. The arguments of AUTH and of key look-ups contain secrets.
  const { command } = serialized;
  if (typeof command === 'object' && command !== null && 'name' in command) {
    serialized['command'] = command.name;
  }
  for (const [name, value] of Object.entries(serialized)) {
    if (typeof value === 'string') {
      serialized[name] = withoutUrlCredentials(value);
    }
  }
  delete serialized['raw'];
  return serialized;
}

/**
 * Characters that JSON does not escape, although terminals and log viewers interpret them: DEL and the C1 controls, Unicode line
 * breaks, and marks that change the direction of text.
 */
const UNPRINTABLE = /[\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

/** These characters occur only inside the strings of a JSON line, so escaping them does not change its meaning. */
function escapeUnprintable(line: string): string {
  return line.replace(
    UNPRINTABLE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

export function createLogger(level: string, destination?: DestinationStream): Logger {
  const options: LoggerOptions = {
    level,
    base: { service: 'holdfast' },
    messageKey: 'msg',
    // eslint-disable-next-line no-restricted-syntax -- log lines have the time of their host, like those of other processes
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label) => ({ level: label }) },
    hooks: { streamWrite: escapeUnprintable },
    redact: { paths: SECRET_PATHS, censor: '[redacted]' },
    serializers: {
      err: serializeError,
      error: serializeError,
      url: (value: unknown) => (typeof value === 'string' ? withoutUrlCredentials(value) : value),
    },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}
