export { DecideModule } from './decide.module.js';
