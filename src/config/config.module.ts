import { Global, Module, type DynamicModule } from '@nestjs/common';

import type { HoldfastConfig } from './config.js';

/** Injects the checked configuration of this process, a HoldfastConfig. */
export const CONFIG = Symbol('CONFIG');

@Global()
@Module({})
export class ConfigModule {
  static forRoot(config: HoldfastConfig): DynamicModule {
    return { module: ConfigModule, providers: [{ provide: CONFIG, useValue: config }], exports: [CONFIG] };
  }
}
