// A curve as an SVG picture that is readable on light and dark pages.

/** @typedef {import('./types.ts').Curve} Curve */

const WIDTH = 720;
const HEIGHT = 360;
const PLOT = { left: 64, right: 570, top: 44, bottom: 304 };
const TICKS = 5;
/** Between the names of two lines. */
const LABEL_HEIGHT = 16;
const STYLE = `
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 15px; font-weight: 600; }
.back { fill: #ffffff; }
.grid { stroke: #d8dee4; }
.line { fill: none; stroke-width: 2; }
.s0 { --c: #0969da; } .s1 { --c: #bc4c00; } .s2 { --c: #1a7f37; }
.line { stroke: var(--c); } .dot, .name { fill: var(--c); }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.back { fill: #0d1117; }
.grid { stroke: #30363d; }
.s0 { --c: #58a6ff; } .s1 { --c: #f0883e; } .s2 { --c: #3fb950; }
}
`;

/** @param {string} text */
const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** @param {number} value */
const place = (value) => String(Math.round(value * 10) / 10);

/** @param {number} value */
const tickText = (value) => value.toLocaleString('en-US', { maximumFractionDigits: 1 });

/**
 * The smallest step of 1, 2 or 5 times a power of ten with which `TICKS` steps reach a value.
 * @param {number} highest
 */
export function tickStep(highest) {
  const power = 10 ** Math.floor(Math.log10(highest / TICKS || 1));
  return power * ([1, 2, 5].find((times) => times * power * TICKS >= highest) ?? 10);
}

/**
 * The position of a size on the horizontal axis, from 0 to 1. A logarithmic axis has no 0, so that is placed a decade below the rest.
 * @param {Curve} curve
 */
export function horizontal({ xs, isLinear }) {
  const least = Math.min(...xs.filter((x) => x > 0));
  const scaled = (/** @type {number} */ x) => (isLinear ? x : Math.log10(x === 0 ? least / 10 : x));
  const [first, last] = [scaled(xs[0] ?? 0), scaled(xs.at(-1) ?? 1)];
  return (/** @type {number} */ x) => (last === first ? 0.5 : (scaled(x) - first) / (last - first));
}

/**
 * The heights of the lines' names: at the ends of their lines, but without overlaps.
 * @param {readonly number[]} ends
 */
export function labelHeights(ends) {
  const order = ends.map((_, index) => index).sort((a, b) => (ends[a] ?? 0) - (ends[b] ?? 0));
  const heights = [...ends];
  order.forEach((line, rank) => {
    const above = heights[order[rank - 1] ?? -1];
    heights[line] = Math.max(heights[line] ?? 0, above === undefined ? 0 : above + LABEL_HEIGHT);
  });
  return heights;
}

/** @param {Curve} curve */
export function pictureOf(curve) {
  const { title, xLabel, yLabel, xs, lines } = curve;
  const step = tickStep(Math.max(...lines.flatMap(({ ys }) => ys)));
  const across = horizontal(curve);
  const xOf = (/** @type {number} */ x) => PLOT.left + across(x) * (PLOT.right - PLOT.left);
  const yOf = (/** @type {number} */ y) => PLOT.bottom - (y / (step * TICKS)) * (PLOT.bottom - PLOT.top);
  const rows = Array.from({ length: TICKS + 1 }, (_, index) => index * step).map((value) => {
    const y = place(yOf(value));
    return `<path class="grid" d="M${PLOT.left} ${y}H${PLOT.right}"/><text x="${PLOT.left - 8}" y="${y}" dy="4" text-anchor="end">${tickText(value)}</text>`;
  });
  const columns = xs.map(
    (x) => `<text x="${place(xOf(x))}" y="${PLOT.bottom + 20}" text-anchor="middle">${tickText(x)}</text>`,
  );
  const names = labelHeights(lines.map(({ ys }) => yOf(ys.at(-1) ?? 0)));
  const drawn = lines.map(({ name, ys }, index) => {
    const points = xs.map((x, at) => [place(xOf(x)), place(yOf(ys[at] ?? 0))]);
    const dots = points.map(([x, y]) => `<circle class="dot" cx="${x}" cy="${y}" r="3.5"/>`).join('');
    const path = points.map(([x, y]) => `${x} ${y}`).join('L');
    const label = `<text class="name" x="${PLOT.right + 12}" y="${place(names[index] ?? 0)}" dy="4">${escaped(name)}</text>`;
    return `<g class="s${index}"><path class="line" d="M${path}"/>${dots}${label}</g>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img">`,
    `<title>${escaped(title)}</title>`,
    `<style>${STYLE}</style>`,
    `<rect class="back" width="${WIDTH}" height="${HEIGHT}"/>`,
    `<text class="title" x="16" y="24">${escaped(title)}: ${escaped(yLabel)}</text>`,
    ...rows,
    ...columns,
    `<text x="${(PLOT.left + PLOT.right) / 2}" y="${PLOT.bottom + 44}" text-anchor="middle">${escaped(xLabel)}</text>`,
    ...drawn,
    '</svg>\n',
  ].join('\n');
}
