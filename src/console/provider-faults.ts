/** What is wrong with what the provider has sent. */
export interface ProviderFault {
  readonly message: string;
  /** Whether a stranger can cause it who only guesses. */
  readonly isGuess: boolean;
}

const OF_CLAIM: Readonly<Record<string, string>> = {
  aud: 'the token of the identity provider is for another client; compare OIDC_CLIENT_ID with its settings',
  azp: 'the token of the identity provider is for another client; compare OIDC_CLIENT_ID with its settings',
  iss: 'the token is of another issuer; compare OIDC_ISSUER with the settings of the identity provider',
  nonce: 'the token of the identity provider is that of another log-in; begin again',
};

/** By what the library says of the part that is wrong. */
const OF_PART: readonly (readonly [part: string, message: string])[] = [
  ['"state"', 'this log-in was begun a second time, or by somebody else; begin again'],
  ['"alg"', 'the token of the identity provider is signed in a way that this console does not accept'],
  ['signature', 'the token has no signature of the identity provider'],
  ['"iss"', OF_CLAIM['iss'] as string],
  ['claim missing', 'the token of the identity provider lacks a claim that OpenID Connect demands'],
];
const OTHER = 'what the identity provider has sent is not valid; begin again';

/**
 * The fault that an error of openid-client stands for; undefined if the provider is away, or answers what is no answer. Its errors have
 * their details in the causes of their causes.
 */
export function faultOf(error: Error & { readonly code?: unknown }): ProviderFault | undefined {
  const { message = '', cause: details } = (error.cause ?? {}) as { message?: string; cause?: unknown };
  const { claim = '', attribute } = (details ?? {}) as { claim?: string; attribute?: string };
  switch (error.code) {
    case 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED': {
      const where = claim === 'nbf' ? 'ahead of' : 'behind';
      return {
        message: `the clock of the identity provider is ${where} that of this ledger`,
        isGuess: false,
      };
    }
    case 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED':
      return attribute === 'sub'
        ? { message: 'the user information is that of another account than the token', isGuess: false }
        : undefined;
    case 'OAUTH_JWT_CLAIM_COMPARISON_FAILED':
      return { message: OF_CLAIM[claim] ?? OTHER, isGuess: true };
    case 'OAUTH_KEY_SELECTION_FAILED':
      return { message: 'the token is signed with no key of the identity provider', isGuess: true };
    case 'OAUTH_INVALID_RESPONSE':
      return {
        message: OF_PART.find(([part]) => message.includes(part))?.[1] ?? OTHER,
        isGuess: true,
      };
    default:
      return undefined;
  }
}
