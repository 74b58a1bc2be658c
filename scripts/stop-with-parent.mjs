// Loaded into a server that another process starts: when that process goes, however it goes, its end of the pipe closes,
// and the server stops in its own good order instead of living on unseen.
process.stdin.on('error', () => undefined);
process.stdin.on('end', () => process.kill(process.pid, 'SIGTERM'));
process.stdin.resume();
process.stdin.unref?.();
