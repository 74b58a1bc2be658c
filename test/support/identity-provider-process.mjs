// An OpenID Connect provider, with log-in and consent pages that accept any password. It listens at once, and serves once it is told the
// redirect URIs of its client, because those have the port of a service that needs the issuer first.
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

/** @typedef {{ redirectUri: string, logOutUri: string, accounts: Record<string, object>, claimsInIdToken: boolean }} Setup */

/** @type {import('node:http').RequestListener} */
let answer = (_request, response) => void response.writeHead(503).end();
const server = createServer((request, response) => answer(request, response));
server.listen(0, '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  process.send?.({ port });
});

process.on('message', (/** @type {Setup} */ { redirectUri, logOutUri, accounts, claimsInIdToken }) => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  const provider = new Provider(`http://127.0.0.1:${port}`, {
    clients: [
      {
        client_id: 'holdfast',
        client_secret: 'a-secret-of-the-client',
        redirect_uris: [redirectUri],
        post_logout_redirect_uris: [logOutUri],
      },
    ],
    scopes: ['openid', 'email', 'profile', 'groups'],
    claims: {
      email: ['email', 'email_verified'],
      profile: ['name', 'preferred_username'],
      groups: ['groups'],
    },
    conformIdTokenClaims: !claimsInIdToken,
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => Promise.resolve({ sub: id, ...accounts[id] }),
    }),
    features: { devInteractions: { enabled: true }, rpInitiatedLogout: { enabled: true } },
    cookies: { keys: ['a key of the cookies'] },
    pkce: { required: () => true },
  });
  const serve = provider.callback();
  answer = (request, response) => void serve(request, response);
  process.send?.({ isReady: true });
});
