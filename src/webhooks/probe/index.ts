export { ProbeModule } from './probe.module.js';
