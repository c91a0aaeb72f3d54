// Record, and play back what was recorded.

import { ask, part } from "../api";
import { element, setChildren, setText } from "../dom";
import { bytes, clock, count, counters, duration } from "../format";
import type { Recording, RecordingFile, Replay } from "../status";
import { field, Group, numberInput, submit, textInput, valueOf } from "./group";

/** A slow disk may take its time to get the last of it. */
const CLOSING_MS = 20_000;
const LOOK_MS = 1000;
const NAME = "[a-zA-Z0-9._\\-]+";

export class Recorder extends Group {
  private readonly name = textInput("a name, or none", NAME);
  private readonly start = submit("Record");
  private readonly stop = this.button("Stop and close the file", () => this.end());
  private readonly facts = element("p", "wide");
  private readonly report = reportLink("Report so far");

  constructor(private readonly closed: () => void) {
    super("Record");
    this.form([field("Name", this.name), this.start, this.stop], () => this.begin());
    this.body.append(this.facts, this.report);
    this.stop.hidden = this.report.hidden = true;
  }

  show(recording: Recording): void {
    const on = recording.state === "recording";
    this.start.hidden = on;
    this.stop.hidden = this.report.hidden = !on;
    if (on) leadTo(this.report, recording.file);
    this.name.disabled = on;
    setText(this.brief, on ? `recording, ${clock(recording.seconds)}` : recording.state === "failed" ? "failed" : "");
    setText(this.facts, words(recording));
  }

  private async begin(): Promise<void> {
    const name = this.name.value.trim();
    this.show(await ask<Recording>("PUT", "recording", name ? { name } : {}));
  }

  private async end(): Promise<string> {
    const recording = await ask<Recording>("DELETE", "recording", undefined, CLOSING_MS);
    this.show(recording);
    this.closed();
    return "The file is closed. Find it under Replay.";
  }
}

/** A link that opens a new tab: the report of an hour takes minutes. */
function reportLink(text: string): HTMLAnchorElement {
  return Object.assign(element("a", "", text), { target: "_blank", rel: "noopener" });
}

function leadTo(link: HTMLAnchorElement, name: string): void {
  link.href = `api/v1/recordings/${part(name)}/report`;
  link.setAttribute("aria-label", `${link.textContent} of ${name}, in a new tab`);
}

function words(recording: Recording): string {
  if (recording.state === "failed") return `The recording failed: ${recording.reason}. The part written before can be read.`;
  if (recording.state === "idle") return "Records all inputs and outputs into one file, until you stop it.";
  const { file, seconds, messages, lost } = recording;
  return `${file}: ${duration(seconds)}, ${bytes(recording.bytes)}, ${count(messages)} messages, lost: ${counters(lost) || "none"}`;
}

export class Player extends Group {
  private readonly rate = numberInput(1, { min: 0.1, max: 20 });
  private readonly loop = Object.assign(element("input"), { type: "checkbox" });
  private readonly list = element("ul", "files");
  private readonly empty = element("p", "empty", "No recording yet: start one above.");
  private readonly progress = element("progress");
  private readonly facts = element("p", "wide");
  private readonly stop = this.button("Stop the replay", () => this.end());
  private timer = 0;

  constructor() {
    super("Replay", () => void this.load());
    const row = element("div", "row");
    row.append(field("Rate", this.rate, "× real time"), field("Again and again", this.loop), this.stop);
    this.progress.setAttribute("aria-label", "Position of the replay");
    this.body.append(row, this.facts, this.progress, this.list, this.empty);
    this.tell({ state: "idle", file: "", position_s: 0, duration_s: 0, rate: 1, loop: false, reason: "" });
  }

  /** Ask what there is and what plays. */
  load(): Promise<void> {
    return this.attempt(async () => {
      const listed = await ask<RecordingFile[]>("GET", "recordings");
      this.empty.hidden = listed.length > 0;
      const files = new Map(listed.map((file) => [[file.name, file.bytes, file.readable].join(" "), file]));
      setChildren(this.list, [...files.keys()], (key) => this.makeFile(files.get(key)!));
      await this.follow();
    });
  }

  private makeFile(file: RecordingFile): HTMLElement {
    const { name } = file;
    const item = element("li");
    const link = Object.assign(element("a", "strong", name), { href: `api/v1/recordings/${part(name)}`, download: name });
    const whole = file.truncated ? `${duration(file.duration_s)} up to its end, which is missing` : duration(file.duration_s);
    const about = file.readable ? whole : `cannot be read: ${file.reason}`;
    item.append(link, element("span", "quiet", `${about}, ${bytes(file.bytes)}`));
    if (file.readable) {
      const report = reportLink("Report");
      leadTo(report, name);
      item.append(report);
      const play = this.button("Play", () => this.play(name));
      play.setAttribute("aria-label", `Play ${name}`);
      item.append(play);
    }
    return item;
  }

  private async play(name: string): Promise<void> {
    this.tell(await ask<Replay>("PUT", "replay", { name, rate: valueOf(this.rate), loop: this.loop.checked }));
    await this.follow();
  }

  private async end(): Promise<void> {
    this.tell(await ask<Replay>("DELETE", "replay"));
  }

  /** Look once a second while something plays, or somebody else may let something play. */
  private async follow(): Promise<void> {
    clearTimeout(this.timer);
    try {
      this.tell(await ask<Replay>("GET", "replay"));
    } finally {
      if (this.node.open || !this.stop.hidden) this.timer = window.setTimeout(() => void this.follow().catch((error: Error) => this.say(error.message, "bad")), LOOK_MS);
    }
  }

  private tell(replay: Replay): void {
    const playing = replay.state === "playing";
    this.stop.hidden = this.progress.hidden = !playing;
    setText(this.brief, playing ? `playing ${replay.file}` : replay.state === "idle" ? "" : replay.state);
    if (playing) {
      this.progress.max = replay.duration_s;
      this.progress.value = replay.position_s;
      setText(this.facts, `${clock(replay.position_s)} of ${clock(replay.duration_s)}; live events of the recorded sources are held back.`);
    } else {
      const done = replay.state === "done" ? `${replay.file} was played to its end. ` : "";
      setText(this.facts, replay.state === "failed" ? `The replay failed: ${replay.reason}` : `${done}During a replay, recorded sources replace the live ones.`);
    }
  }
}
