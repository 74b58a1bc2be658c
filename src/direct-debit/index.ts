export { DirectDebitModule } from './direct-debit.module.js';
