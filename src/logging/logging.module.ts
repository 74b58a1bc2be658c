import { Global, Module, type DynamicModule } from '@nestjs/common';

import { LOGGER, type Logger } from './logger.js';

/** Makes one logger injectable everywhere: the same instance that Fastify logs with. */
@Global()
@Module({})
export class LoggingModule {
  static forRoot(logger: Logger): DynamicModule {
    return { module: LoggingModule, providers: [{ provide: LOGGER, useValue: logger }], exports: [LOGGER] };
  }
}
