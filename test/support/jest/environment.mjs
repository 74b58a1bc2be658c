import { ModernFakeTimers } from '@jest/fake-timers';
import { DEFAULT_REDIS_OPTIONS } from 'ioredis/built/redis/RedisOptions.js';
import { ModuleMocker } from 'jest-mock';
import { timeFactor } from './time-factor.mjs';

/** @typedef {{ timeout?: number | undefined }} Limited */

/**
 * A client that is closed after its connection was lost keeps a timer for this long, and with it the process. Jest kills a worker that has not
 * ended half a second after its last test file.
 */
DEFAULT_REDIS_OPTIONS.disconnectTimeout = 100;

/**
 * The process itself, in the state in which each test file should find it; see runtime.mjs. Time limits of
 * tests, of hooks and of jest.setTimeout are adapted to the speed of the machine.
 */
export default class ProcessEnvironment {
  factor = timeFactor();
  global = globalThis;
  moduleMocker = new ModuleMocker(globalThis);
  fakeTimers = null;
  env = { ...process.env };
  /** The members of the process that jest replaces. */
  ofProcess = ['exit', 'getBuiltinModule'].map(
    (name) => /** @type {const} */ ([name, Reflect.get(process, name)]),
  );

  /** @param {import('@jest/environment').JestEnvironmentConfig} config */
  constructor({ projectConfig }) {
    this.fakeTimersModern = new ModernFakeTimers({ config: projectConfig, global: globalThis });
  }

  setup() {
    return Promise.resolve();
  }

  teardown() {
    this.fakeTimersModern.dispose();
    this.ofProcess.forEach(([name, value]) => Reflect.set(process, name, value));
    Object.keys(process.env).forEach((name) => Reflect.deleteProperty(process.env, name));
    Object.assign(process.env, this.env);
    return Promise.resolve();
  }

  getVmContext() {
    return null;
  }

  /**
   * @param {{ name: string }} event
   * @param {{ testTimeout: number, currentDescribeBlock: { tests: Limited[], hooks: Limited[] } }} state
   */
  handleTestEvent(event, state) {
    switch (event.name) {
      case 'add_test':
        this.stretch(state.currentDescribeBlock.tests.at(-1));
        break;
      case 'add_hook':
        this.stretch(state.currentDescribeBlock.hooks.at(-1));
        break;
      case 'run_start':
        state.testTimeout *= this.factor;
        break;
    }
  }

  /** @param {Limited | undefined} limited */
  stretch(limited) {
    if (limited?.timeout !== undefined) {
      limited.timeout *= this.factor;
    }
  }
}
