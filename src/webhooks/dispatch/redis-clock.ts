/**
 * Redis' time between two of its answers: the last one it told, and what has passed since by the monotonic clock. Good for ages of
 * minutes and hours; what must be exact asks Redis.
 */
export class RedisClock {
  private redisMs = 0;
  private at = 0;

  tell(redisMs: number): void {
    this.redisMs = redisMs;
    this.at = performance.now();
  }

  nowMs(): number {
    return this.redisMs + performance.now() - this.at;
  }
}
