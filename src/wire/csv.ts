/** What makes a spreadsheet take a text for a formula. */
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;
const INTEGER = /^-?\d+$/;

/**
 * One cell of CSV (RFC 4180); empty for undefined. A text that a spreadsheet would run as a formula gets an apostrophe in front. The
 * console's export uses this, too.
 */
export function csvCell(value: string | number | bigint | undefined): string {
  const plain = value === undefined ? '' : String(value);
  const text = FORMULA.test(plain) && !INTEGER.test(plain) ? `'${plain}` : plain;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
