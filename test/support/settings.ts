import { type Constants, CONSTANTS, type HoldfastConfig, loadConfig } from '../../src/config/index.js';
import { storeSettings } from './store.js';

/**
 * How a test runs an instance: environment variables by their names, as an operator sets them, and constants of the service by theirs,
 * which nobody but a test can change.
 */
export type Settings = { readonly [variable: Uppercase<string>]: string } & Partial<Constants>;

interface Separated {
  readonly env: Record<string, string>;
  readonly constants: Partial<Constants>;
}

export function separate(settings: Settings): Separated {
  const all = Object.entries(settings);
  return {
    env: storeSettings(
      Object.fromEntries(all.filter(([name]) => !(name in CONSTANTS)) as [string, string][]),
    ),
    constants: Object.fromEntries(all.filter(([name]) => name in CONSTANTS)),
  };
}

export function configOf(settings: Settings): HoldfastConfig {
  const { env, constants } = separate(settings);
  return { ...loadConfig(env), ...constants };
}
