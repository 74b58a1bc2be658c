// Preloaded into a server that another process starts. When that process ends in any way, its end of the pipe closes, and the server
// shuts down gracefully instead of running on.
import { isMainThread } from 'node:worker_threads';

// Threads are given the preload, too, and have a stdin that ends at once.
if (isMainThread) {
  process.stdin.on('error', () => undefined);
  process.stdin.on('end', () => process.kill(process.pid, 'SIGTERM'));
  process.stdin.resume();
  process.stdin.unref?.();
}
