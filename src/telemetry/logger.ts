import { type DynamicModule, Global, Module } from '@nestjs/common';
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

/** Redaction looks at fixed depths, so a secret is named at the top and up to three levels below it. */
const SECRET_PATHS = SECRET_FIELDS.flatMap((field) => {
  const below = field.startsWith('[') ? field : `.${field}`;
  return [field, `*${below}`, `*.*${below}`, `*.*.*${below}`];
});

/** Replaces the user and password part of each URL in a text. */
export function withoutUrlCredentials(text: string): string {
  return text.replace(/([a-z][a-z0-9+.-]*:\/\/)[^\s/@]*@/gi, '$1[redacted]@');
}

/** Any value that may stand under an error: its text loses URL credentials, and a Redis command loses its arguments. */
function serializeError(error: unknown): unknown {
  if (!(error instanceof Error)) {
    return error;
  }
  const serialized: Record<string, unknown> = { ...stdSerializers.err(error) };
  // ioredis hangs the failed command on its errors; AUTH and key lookups carry secrets in their arguments.
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
 * What JSON leaves as it is, though a terminal or a viewer takes it for a command or for the end of a line: DEL and the C1
 * controls, Unicode's line ends, and the marks that turn the direction of a text.
 */
const UNPRINTABLE = /[\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

/** Outside its strings a line of JSON has none of these characters, so that escaping them never changes what it says. */
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

/** Makes one logger injectable everywhere: the same instance that Fastify logs with. */
@Global()
@Module({})
export class LoggingModule {
  static forRoot(logger: Logger): DynamicModule {
    return { module: LoggingModule, providers: [{ provide: LOGGER, useValue: logger }], exports: [LOGGER] };
  }
}
