import { type ReactNode, useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

export interface Line {
  readonly label: string;
  /** The name of a CSS variable. */
  readonly colour: string;
  readonly values: readonly number[];
}

function colourOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Of the figures beside the vertical axis, in px. */
const LETTER = 7;
const AXIS_EDGE = 16;
const longestOf = (labels: readonly (string | null)[] | null): number =>
  Math.max(3, ...(labels ?? []).map((label) => label?.length ?? 0));

function optionsFor(lines: readonly Line[], width: number, height: number): uPlot.Options {
  const axis: uPlot.Axis = {
    stroke: colourOf('--muted'),
    font: "11px 'Inter Variable', sans-serif",
    grid: { stroke: colourOf('--line'), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height,
    // Half of the last label stands beyond the last moment.
    padding: [6, 20, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.1)] } },
    axes: [
      { ...axis, size: 20, gap: 4, grid: { show: false }, values: (_plot, times) => times.map(clockOf) },
      { ...axis, size: (_plot, labels) => AXIS_EDGE + LETTER * longestOf(labels) },
    ],
    series: [
      {},
      ...lines.map(({ label, colour }) => ({
        label,
        stroke: colourOf(colour),
        width: 1.5,
        points: { show: false },
      })),
    ],
  };
}

function clockOf(seconds: number): string {
  const date = new Date(seconds * 1000);
  return `${String(date.getHours()).padStart(2, '0')}:${String(date.getMinutes()).padStart(2, '0')}`;
}

/** Lines over time. `summary` says in words what they show, for those who cannot see them. */
export function Graph({
  times,
  lines,
  height,
  summary,
}: {
  /** Unix seconds. */
  times: readonly number[];
  lines: readonly Line[];
  height: number;
  summary: string;
}): ReactNode {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const data = [times, ...lines.map(({ values }) => values)] as unknown as uPlot.AlignedData;
  const latest = useRef({ data, lines });
  latest.current = { data, lines };

  useEffect(() => {
    const element = place.current;
    if (element === null) {
      return undefined;
    }
    const draw = (): void => {
      plot.current?.destroy();
      plot.current = new uPlot(
        optionsFor(latest.current.lines, element.clientWidth, height),
        latest.current.data,
        element,
      );
    };
    draw();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    // The canvas takes its colours once, so another colour scheme needs another plot.
    const recoloured = new MutationObserver(draw);
    recoloured.observe(document.documentElement, { attributeFilter: ['data-mantine-color-scheme'] });
    return () => {
      resized.disconnect();
      recoloured.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [height]);

  useEffect(() => {
    plot.current?.setData(latest.current.data);
  }, [times, lines]);

  return <div className="graph" ref={place} style={{ height }} role="img" aria-label={summary} />;
}
