// The last ten minutes of a camera, as the bridge remembers them: latency, rate, ages.

import uPlot from "uplot";
import { ask } from "../api";
import { byId, element, setText } from "../dom";
import type { History } from "../status";
import { colour } from "../theme";

const AGAIN_MS = 5000;
const SPAN_S = 600;
const USUAL_PX = 13;
const HEIGHT = 84;

interface Chart {
  title: string;
  lines: { label: string; colour: string; values: (history: History) => (number | null)[] }[];
}

const CHARTS: Chart[] = [
  { title: "from capture, ms", lines: [
    { label: "received", colour: "accent", values: (h) => h.received_ms },
    { label: "output", colour: "quiet", values: (h) => h.output_ms },
  ] },
  { title: "rate, Hz", lines: [{ label: "pictures", colour: "accent", values: (h) => h.rate_hz }] },
  { title: "age, ms", lines: [
    { label: "picture", colour: "accent", values: (h) => inMs(h.picture_age_s) },
    { label: "pose", colour: "poor", values: (h) => inMs(h.pose_age_s) },
  ] },
];

/** A tick that fits next to its axis: 10000 as 10k. */
function short(tick: number): string {
  return tick < 10_000 ? String(tick) : `${tick / 1000}k`;
}

export class HistoryPanel {
  private readonly host = byId("history");
  private readonly title = element("h3");
  private readonly places = CHARTS.map((chart) => {
    const place = element("div", "plot");
    place.append(element("p", "quiet", chart.title));
    return place;
  });
  private readonly scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / USUAL_PX;
  private plots: uPlot[] = [];
  private camera: string | null = null;
  private visible = false;
  private due = 0;

  constructor() {
    const row = element("div", "charts");
    row.append(...this.places);
    this.host.append(this.title, row);
    new IntersectionObserver(([entry]) => {
      this.visible = entry!.isIntersecting;
      void this.load();
    }).observe(this.host);
    new ResizeObserver(() => this.fit()).observe(this.host);
  }

  choose(camera: string | null): void {
    if (camera === this.camera) return;
    this.camera = camera;
    this.host.hidden = camera === null;
    setText(this.title, `Last ten minutes of ${camera}`);
    void this.load();
  }

  /** After a change of colours. */
  redraw(): void {
    for (const plot of this.plots) plot.redraw();
  }

  /** Now, and again while it can be seen. */
  private async load(): Promise<void> {
    clearTimeout(this.due);
    const camera = this.camera;
    if (!this.visible || camera === null) return;
    try {
      const history = await ask<History>("GET", `history/${encodeURIComponent(camera)}`);
      if (camera === this.camera) this.draw(history);
    } catch (error) {
      console.warn((error as Error).message);
    }
    clearTimeout(this.due);
    this.due = window.setTimeout(() => void this.load(), AGAIN_MS);
  }

  private draw(history: History): void {
    CHARTS.forEach(({ lines }, i) => {
      const data = [history.utc_s, ...lines.map((line) => line.values(history))] as uPlot.AlignedData;
      const plot = this.plots[i];
      if (plot === undefined) {
        this.plots[i] = new uPlot(this.options(CHARTS[i]!), data, this.places[i]!);
        return;
      }
      plot.setData(data);
      nameNewest(plot);
    });
  }

  private fit(): void {
    this.plots.forEach((plot, i) => {
      const width = this.places[i]!.clientWidth;
      if (width > 0 && width !== plot.width) plot.setSize({ width, height: plot.height });
    });
  }

  private options({ title, lines }: Chart): uPlot.Options {
    const seen = (u: uPlot): number => u.data[0].at(-1) ?? SPAN_S;
    return {
      width: Math.max(120, this.places[0]!.clientWidth),
      height: Math.round(HEIGHT * this.scale),
      padding: [4, 6, 0, 0],
      cursor: { y: false },
      legend: { live: true },
      hooks: { ready: [nameNewest] }, // not before: its first drawing empties the legend
      scales: { x: { range: (u) => [seen(u) - SPAN_S, seen(u)] }, y: { range: (_, _min, max) => [0, Math.max(1, 1.1 * max)] } },
      axes: timeAxes(this.scale, (ticks) => ticks.map(short)),
      series: [
        { label: title, value: "{HH}:{mm}:{ss}" },
        ...lines.map((line) => ({
          label: line.label,
          stroke: () => colour(line.colour),
          width: 1.5,
          points: { show: false },
          value: (_: uPlot, value: number | null) => (value === null ? "–" : value.toFixed(1)),
        })),
      ],
    };
  }
}

/** Axes of a plot over the time of day; `scale` is that of the page's letters. */
export function timeAxes(scale: number, words: (ticks: number[]) => string[]): uPlot.Axis[] {
  const axis: uPlot.Axis = {
    stroke: () => colour("quiet"),
    font: `${10 * scale}px system-ui, sans-serif`,
    grid: { stroke: () => colour("line"), width: 1 },
    ticks: { show: false },
  };
  return [
    { ...axis, space: 60 * scale, size: 18 * scale, gap: 1, values: (_, ticks) => ticks.map((t_s) => new Date(1e3 * t_s).toTimeString().slice(0, 5)) },
    { ...axis, size: 34 * scale, gap: 3, space: 22 * scale, values: (_, ticks) => words(ticks) },
  ];
}

/** Write the newest values into the legend. */
function nameNewest(plot: uPlot): void {
  plot.setLegend({ idx: plot.data[0].length - 1 }, false);
}

function inMs(values: (number | null)[]): (number | null)[] {
  return values.map((value) => (value === null ? null : 1e3 * value));
}
