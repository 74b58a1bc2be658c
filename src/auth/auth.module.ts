import { Module } from '@nestjs/common';
import { AdminKey, ApiKeyVerifier, AuthAttempts, KeyRevocations } from './api-key-verifier.js';
import { ConsoleSessions } from './console-sessions.js';
import { RateLimits, WindowClock } from './rate-limits.js';

/** Who is calling, and how often they may. */
@Module({
  providers: [
    AdminKey,
    ApiKeyVerifier,
    AuthAttempts,
    ConsoleSessions,
    KeyRevocations,
    RateLimits,
    WindowClock,
  ],
  exports: [AdminKey, ApiKeyVerifier, AuthAttempts, ConsoleSessions, RateLimits],
})
export class AuthModule {}
