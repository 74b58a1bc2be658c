/**
 * Where a spreadsheet would begin a formula: at the start, or behind what some locales take for the end of a cell, whatever is quoted.
 */
const FORMULA = /(^|[;\t\r\n])(?= *[=+\-@＝＋－＠])/g;
/** What a spreadsheet strips before it looks for a formula. */
const STRIPPED = /^(?=[\t\r\n])/;
const INTEGER = /^-?\d+$/;

/**
 * One cell of CSV (RFC 4180); empty for undefined. A text that a spreadsheet would run as a formula gets an apostrophe in front of what it
 * would run. The console's export uses this, too.
 */
export function csvCell(value: string | number | bigint | undefined): string {
  const plain = value === undefined ? '' : String(value);
  const text = INTEGER.test(plain) ? plain : plain.replace(FORMULA, "$1'").replace(STRIPPED, "'");
  return /[",;\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
