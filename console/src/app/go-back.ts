/** What a key means something else for: a panel or a dialog that closes, a field, a list that is open. */
const IN_THE_WAY = '[role=dialog], [aria-expanded=true]:not(.menu-button, .filters-button)';
const FIELDS = 'input, select, textarea, [contenteditable]';

/** Esc goes back to where the reader came from, such as from a reservation to its list, unless it closes something first. */
export function goBackOnEscape(history: { canGoBack: () => boolean; back: () => void }): void {
  window.addEventListener(
    'keydown',
    (event) => {
      const target = event.target instanceof Element ? event.target : document.body;
      const isFree = !target.matches(FIELDS) && document.querySelector(IN_THE_WAY) === null;
      if (event.key === 'Escape' && isFree && history.canGoBack()) {
        history.back();
      }
    },
    // Before whatever closes something by this key, which would be gone afterwards.
    { capture: true },
  );
}
