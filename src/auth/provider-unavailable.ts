/** The identity provider does not answer, or not as OpenID Connect says. Keys still log in. */
export class ProviderUnavailable extends Error {
  override readonly name = 'ProviderUnavailable';
  /** For the `Retry-After` header, in seconds. */
  readonly retryAfterS = 5;

  constructor(cause: unknown) {
    super('the identity provider does not answer; log in with a key, or try again', { cause });
  }
}
