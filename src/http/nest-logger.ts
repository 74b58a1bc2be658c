import type { LoggerService } from '@nestjs/common';
import type { Logger } from '../logging/index.js';

type PinoLevel = 'info' | 'error' | 'warn' | 'debug' | 'trace' | 'fatal';

/** Nest's own lines (and those of its `Logger` class) as lines of ours. */
export class NestLogger implements LoggerService {
  constructor(private readonly logger: Logger) {}

  /** Nest tells about every module and route at start; that is detail. */
  log(message: unknown, ...rest: unknown[]): void {
    this.write(isBootDetail(rest) ? 'debug' : 'info', message, rest);
  }

  /** A failure to start is thrown to the caller too, which says it in one clear line. */
  error(message: unknown, ...rest: unknown[]): void {
    this.write(isBootDetail(rest) ? 'debug' : 'error', message, rest);
  }

  warn(message: unknown, ...rest: unknown[]): void {
    this.write('warn', message, rest);
  }

  debug(message: unknown, ...rest: unknown[]): void {
    this.write('debug', message, rest);
  }

  verbose(message: unknown, ...rest: unknown[]): void {
    this.write('trace', message, rest);
  }

  fatal(message: unknown, ...rest: unknown[]): void {
    this.write('fatal', message, rest);
  }

  private write(level: PinoLevel, message: unknown, rest: readonly unknown[]): void {
    const context = rest.at(-1);
    const stack = rest.length > 1 ? rest[0] : undefined;
    const fields = {
      ...(typeof context === 'string' ? { context } : {}),
      ...(typeof stack === 'string' ? { stack } : {}),
      ...(message instanceof Error ? { err: message } : {}),
    };
    this.logger[level](fields, message instanceof Error ? message.message : describe(message));
  }
}

const BOOT_CONTEXTS: ReadonlySet<unknown> = new Set([
  'NestFactory',
  'InstanceLoader',
  'RoutesResolver',
  'RouterExplorer',
  'NestApplication',
  'ExceptionHandler',
]);

function isBootDetail(rest: readonly unknown[]): boolean {
  return BOOT_CONTEXTS.has(rest.at(-1));
}

function describe(message: unknown): string {
  return typeof message === 'string' ? message : JSON.stringify(message);
}
