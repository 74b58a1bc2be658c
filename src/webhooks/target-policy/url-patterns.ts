/** Scheme, host name, port, and all that follows. The scheme and the port may be a wildcard each. */
const PATTERN = /^(https?|\*):\/\/(\[[^/\s\]]+\]|[^/\s:[\]]+)(?::(\d{1,5}|\*))?(\/\S*)?$/i;

/** Whether a text can be an allowed pattern: a URL with wildcards, `https://*.example.com/hooks/*`. */
export function isUrlPattern(text: string): boolean {
  return PATTERN.test(text);
}

/**
 * Whether a URL matches a pattern. A wildcard stands for any characters, but one in the host name never reaches beyond it:
 * in a comparison of whole texts, a path could pretend to be the end of an allowed host. A pattern without a port means the
 * scheme's own one, and a pattern without a path allows every path. Where the path is limited, one with `..` in any
 * encoding matches nothing: the receiver, or a proxy before it, may decode it and leave the allowed path.
 */
export function matchesPattern(url: URL, pattern: string): boolean {
  const [, scheme = '', name = '', port = '', path] = PATTERN.exec(pattern) ?? [];
  return (
    matchesGlob(url.protocol.slice(0, -1), scheme.toLowerCase()) &&
    matchesGlob(url.hostname, name.toLowerCase()) &&
    matchesGlob(url.port, port) &&
    (path === undefined ||
      path === '/*' ||
      (matchesGlob(url.pathname + url.search, path) && !mayClimb(url.pathname)))
  );
}

/** Decoding goes on for as long as it changes something, for receivers behind proxies that each decode once. */
const DECODINGS = 8;

/** Whether a path that URL parsers have brought into its normal form still has segments `.` or `..` for whoever decodes it. */
function mayClimb(path: string): boolean {
  let text = path;
  for (let round = 0; round < DECODINGS; round += 1) {
    let decoded: string;
    try {
      decoded = decodeURIComponent(text).normalize('NFKC');
    } catch {
      // No UTF-8, such as the overlong forms of dots and slashes: what a receiver makes of it is unknown.
      return true;
    }
    // Some servers cut `;` and what follows it off a segment, and some end a path at a NUL.
    if (/(?:^|[/\\])\.{1,2}(?:[/\\;\0]|$)/.test(decoded)) {
      return true;
    }
    if (decoded === text) {
      return false;
    }
    text = decoded;
  }
  return true;
}

/** `*` stands for any characters, also none. Takes time in proportion to both lengths at most, whatever the pattern. */
export function matchesGlob(text: string, pattern: string): boolean {
  let [at, next] = [0, 0];
  let [star, resume] = [-1, 0];
  while (at < text.length) {
    if (pattern[next] === '*') {
      [star, resume] = [next, at];
      next += 1;
    } else if (pattern[next] === text[at]) {
      at += 1;
      next += 1;
    } else if (star >= 0) {
      resume += 1;
      [at, next] = [resume, star + 1];
    } else {
      return false;
    }
  }
  return /^\**$/.test(pattern.slice(next));
}
