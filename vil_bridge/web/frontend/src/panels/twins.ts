// Twins: how far each is from its vehicle now, and over the time that the page has been open.

import uPlot from "uplot";
import { byId, element } from "../dom";
import { UNKNOWN, count, degrees, duration, number } from "../format";
import type { Status, Twin } from "../status";
import { right, setTable, strong, withDetails, type Column, type Row } from "../table";
import { colour } from "../theme";
import { timeAxes } from "./history";

const R = "number";
const COLUMNS: Column[] = [["name"], ["vehicle"], ["twin"], ["state"], ["now", R], ["rms", R], ["Hausdorff", R], ["angle", R], ["delay", R], ["alarms", R]];
const SPAN_S = 600;
const EVERY_S = 1;

/** Root mean square distances, a row a second; null = not seen together. */
interface Course {
  utc_s: number[];
  rms_m: (number | null)[];
  alarm_m: number[];
}

export class TwinsPanel {
  private readonly host = byId("twins");
  private readonly charts = byId("twin-charts");
  private readonly courses = new Map<string, Course>();
  private readonly plots = new Map<string, uPlot>();

  constructor() {
    new ResizeObserver(() => {
      for (const plot of this.plots.values()) plot.setSize({ width: widthOf(plot.root.parentElement!), height: plot.height });
    }).observe(this.charts);
  }

  show({ twins }: Status): void {
    const all = Object.entries(twins);
    this.host.hidden = all.length === 0;
    const rows = all.map(([name, twin]): [Row, string] => [row(name, twin), ""]);
    setTable(byId<HTMLTableElement>("twin-table"), COLUMNS, withDetails(rows, COLUMNS.length));
    for (const [name, twin] of all) this.extend(name, twin);
  }

  /** After a change of colours. */
  redraw(): void {
    for (const plot of this.plots.values()) plot.redraw();
  }

  private extend(name: string, { position_rms_m, alarm_m }: Twin): void {
    const now_s = Date.now() / 1e3;
    const course = this.courses.get(name) ?? { utc_s: [], rms_m: [], alarm_m: [] };
    this.courses.set(name, course);
    if (now_s - (course.utc_s.at(-1) ?? 0) < EVERY_S) return;
    course.utc_s.push(now_s);
    course.rms_m.push(position_rms_m);
    course.alarm_m.push(alarm_m);
    const old = course.utc_s.findIndex((t_s) => t_s > now_s - SPAN_S);
    for (const column of Object.values(course) as unknown[][]) column.splice(0, old);
    const data = [course.utc_s, course.rms_m, course.alarm_m] as uPlot.AlignedData;
    const plot = this.plots.get(name);
    if (plot === undefined) this.plots.set(name, this.draw(name, data));
    else plot.setData(data);
  }

  private draw(name: string, data: uPlot.AlignedData): uPlot {
    const place = element("div", "plot");
    place.append(element("p", "quiet", `${name}: root mean square distance, m`));
    this.charts.append(place);
    const line = { width: 1.5, points: { show: false } };
    const options: uPlot.Options = {
      width: widthOf(place),
      height: 110,
      cursor: { show: false },
      legend: { show: false },
      axes: timeAxes(1, (ticks) => ticks.map((tick) => number(tick, "", 2))),
      scales: { y: { range: (_, _min, max) => [0, 1.1 * max] } },
      series: [
        {},
        { ...line, label: "distance", stroke: () => colour("accent") },
        { ...line, label: "alarm", stroke: () => colour("bad"), dash: [6, 4] },
      ],
    };
    return new uPlot(options, data, place);
  }
}

function widthOf(place: HTMLElement): number {
  return Math.max(120, place.clientWidth);
}

function row(name: string, twin: Twin): Row {
  const seen = twin.position_rms_m !== null;
  return [
    strong(name),
    twin.vehicle,
    twin.twin,
    { text: twin.alarm ? "alarm" : seen ? "near" : "not seen together", badge: `badge ${twin.alarm ? "bad" : seen ? "good" : "fair"}` },
    right(number(twin.now_m, "m", 3)),
    right(seen ? `${number(twin.position_rms_m, "m", 3)} over ${duration(twin.compared_s)}` : UNKNOWN),
    right(number(twin.hausdorff_m, "m", 3)),
    right(number(degrees(twin.attitude_rms_rad), "°", 1)),
    right(duration(twin.delay_s)),
    right(count(twin.episodes)),
  ];
}
