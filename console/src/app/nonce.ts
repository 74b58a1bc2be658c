/**
 * The nonce that lets style elements into the document. Mantine asks for it, and so does the package that hides scroll bars behind
 * dialogs, under the name of a global of webpack.
 */
export const STYLE_NONCE = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? '';

Object.assign(globalThis, { __webpack_nonce__: STYLE_NONCE });
