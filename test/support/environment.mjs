import { TestEnvironment } from 'jest-environment-node';

/** @typedef {{ timeout?: number | undefined }} Limited */

/** Node's environment, in which each time limit that a test, a hook or jest.setTimeout names follows the speed of the machine. */
export default class PatientEnvironment extends TestEnvironment {
  factor = Number(process.env.TEST_TIME_FACTOR ?? 1);

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
