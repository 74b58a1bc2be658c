/** Whatever ends a line, commands a terminal, or turns the direction of writing. */
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g;

/** A free text as it is stored and logged: each run of line breaks and control characters becomes one space. Nothing stays nothing. */
export function oneLine(text: string | undefined): string {
  return text === undefined ? '' : text.replace(UNPRINTABLE, ' ').trim();
}
