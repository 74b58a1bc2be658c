import type { FastifyReply } from 'fastify';

/**
 * Calls the listener once the answer is out, or can no longer go out because the client is gone. An answer that is pipelined behind
 * another one has no socket yet and emits nothing when the connection ends, so the connection itself is watched for it.
 */
export function whenOver({ raw, request }: FastifyReply, listener: () => void): void {
  const { socket } = request.raw;
  if (raw.closed || socket.destroyed) {
    listener();
    return;
  }
  const isQueued = raw.socket === null;
  const end = (): void => {
    raw.off('close', end);
    socket.off('close', end);
    listener();
  };
  raw.once('close', end);
  if (isQueued) {
    // One for each answer that the client pipelines.
    socket.setMaxListeners(0).once('close', end);
  }
}
