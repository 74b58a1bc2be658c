export { OperatorsModule } from './operators.module.js';
