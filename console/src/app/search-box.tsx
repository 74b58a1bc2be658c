import { useNavigate } from '@tanstack/react-router';
import { type ReactNode, type SubmitEvent, useEffect, useRef, useState } from 'react';

const SECRET = /^(cyc_(?:live|test)_[0-9a-f]{2})[0-9A-Za-z]{20,}$/;

/** The SHA-256 as base64url; undefined where the browser has none, because the page came neither over TLS nor from this machine. */
async function sha256(text: string): Promise<string | undefined> {
  const digest = await window.crypto.subtle?.digest('SHA-256', new TextEncoder().encode(text));
  return (
    digest &&
    btoa(String.fromCharCode(...new Uint8Array(digest)))
      .replaceAll('+', '-')
      .replaceAll('/', '_')
      .replace(/=+$/, '')
  );
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** Finds anything by its id, its name or its secret, from every page. The key `/` leads to it. A secret never leaves the page: its hash does. */
export function SearchBox(): ReactNode {
  const navigate = useNavigate();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState('');
  useEffect(() => {
    const focus = (event: KeyboardEvent): void => {
      if (event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping(event.target)) {
        event.preventDefault();
        input.current?.focus();
      }
    };
    window.addEventListener('keydown', focus);
    return () => window.removeEventListener('keydown', focus);
  }, []);
  const search = async (event: SubmitEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const sought = text.trim();
    const prefix = SECRET.exec(sought)?.[1];
    if (sought === '') {
      return;
    }
    setText('');
    input.current?.blur();
    await navigate({
      to: '/search',
      search: prefix === undefined ? { q: sought } : { prefix, hash: (await sha256(sought)) ?? 'none' },
    });
  };
  return (
    <form
      className="search-box"
      role="search"
      aria-label="Everything"
      onSubmit={(event) => void search(event)}
    >
      <input
        ref={input}
        type="search"
        aria-label="Search everything"
        aria-keyshortcuts="/"
        placeholder="Search (/)"
        autoComplete="off"
        spellCheck={false}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()}
      />
    </form>
  );
}
