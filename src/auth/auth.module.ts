import { Module } from '@nestjs/common';
import { ApiKeyVerifier, AuthAttempts } from './api-key-verifier.js';
import { ConsoleSessions } from './console-sessions.js';
import { KeyRevocations } from './key-revocations.js';
import { OperatorKeys } from './operator-keys.js';
import { RateLimits, WindowClock } from './rate-limits.js';

/** Who is calling, and how often they may. */
@Module({
  providers: [
    ApiKeyVerifier,
    AuthAttempts,
    ConsoleSessions,
    KeyRevocations,
    OperatorKeys,
    RateLimits,
    WindowClock,
  ],
  exports: [ApiKeyVerifier, AuthAttempts, ConsoleSessions, OperatorKeys, RateLimits],
})
export class AuthModule {}
