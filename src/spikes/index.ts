export { SpikesModule } from './spikes.module.js';
