// A small histogram over octaves of time.

import uPlot from "uplot";
import { colour } from "../theme";

/** Sizes in px at the usual size of text, of which they are multiples. */
const USUAL_PX = 13;
const HEIGHT = 92;

export class Bars {
  private plot: uPlot | null = null;
  private edges_ms: number[] = [];
  private accent = colour("accent");
  private quiet = colour("quiet");
  private line = colour("line");

  private readonly scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / USUAL_PX;
  private readonly height_px = Math.round(HEIGHT * this.scale);

  constructor(private readonly host: HTMLElement) {
    new ResizeObserver(() => this.fit()).observe(host);
  }

  /** Show per cent by bucket, of the last 10 s and of all. */
  show(edges_s: (number | null)[], recent: number[], all: number[]): void {
    this.edges_ms = edges_s.map((edge) => (edge === null ? Infinity : 1e3 * edge));
    const data: uPlot.AlignedData = [recent.map((_, i) => i), all, recent];
    if (this.plot === null) this.plot = new uPlot(this.options(), data, this.host);
    else this.plot.setData(data);
  }

  recolour(): void {
    [this.accent, this.quiet, this.line] = [colour("accent"), colour("quiet"), colour("line")];
    this.plot?.redraw();
  }

  private fit(): void {
    const width = this.host.clientWidth;
    if (this.plot !== null && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.height_px });
  }

  private options(): uPlot.Options {
    const bars = uPlot.paths.bars!({ size: [0.8, 60], align: 0 });
    const step = uPlot.paths.stepped!({ align: 0 as 1 });
    const axis: uPlot.Axis = {
      stroke: () => this.quiet,
      font: `${10 * this.scale}px system-ui, sans-serif`,
      grid: { stroke: () => this.line, width: 1 },
      ticks: { show: false },
    };
    return {
      width: Math.max(120, this.host.clientWidth),
      height: this.height_px,
      padding: [7 * this.scale, 4, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false, range: (_, min, max) => [min - 0.6, max + 0.6] }, y: { range: (_, _min, max) => [0, Math.max(10, max)] } },
      axes: [
        { ...axis, size: 20 * this.scale, gap: 2, splits: () => this.edges_ms.map((_, i) => i).filter((i) => i % 6 === 3), values: (_, ticks) => ticks.map((i) => label(this.edges_ms[i])) },
        { ...axis, size: 34 * this.scale, gap: 3, values: (_, ticks) => ticks.map((tick) => `${tick} %`), space: 30 * this.scale },
      ],
      series: [
        {},
        { stroke: () => this.quiet, width: 1, paths: step, points: { show: false } },
        { fill: () => this.accent, width: 0, paths: bars, points: { show: false } },
      ],
    };
  }
}

/** The upper end of a bucket. */
function label(edge_ms: number | undefined): string {
  if (edge_ms === undefined || edge_ms === Infinity) return "";
  if (edge_ms < 1) return `${edge_ms.toPrecision(1)} ms`;
  return edge_ms < 1000 ? `${Math.round(edge_ms)} ms` : `${(edge_ms / 1e3).toPrecision(2)} s`;
}
