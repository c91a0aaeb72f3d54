// Bundles the pages into ../static: scripts, styles, plain files, and the licences of what was bundled.
import { build } from "esbuild";
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

const web = path.dirname(fileURLToPath(import.meta.url));
const out = path.join(web, "..", "static");
const COPIED = ["index.html", "vr.html", "arcade.html", "docs.html", "icon.svg"];

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const result = await build({
  absWorkingDir: web,
  entryPoints: { app: "src/main.ts", vr: "src/vr.ts", arcade: "src/race/arcade.ts", docs: "src/docs/main.ts" },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  outdir: out,
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
});
await writeFile(path.join(out, "licences.txt"), await licences(Object.keys(result.metafile.inputs)));
// The page comes last: who finds it finds everything.
for (const file of [...COPIED].reverse()) await copyFile(path.join(web, file), path.join(out, file));

/** Name, version and licence of every package that has a file in the bundle. */
async function licences(inputs) {
  const packages = new Set(inputs.map((file) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]).filter(Boolean));
  const texts = await Promise.all([...packages].sort().map(async (name) => {
    const folder = path.join(web, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
    const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
    if (file === undefined) throw new Error(`${name} ${version} has no licence file`);
    const text = await readFile(path.join(folder, file), "utf8");
    return `${name} ${version} (${license})\n\n${text.trim()}\n`;
  }));
  return `Bundled into the pages of VIL Bridge:\n\n${texts.join(`\n${"-".repeat(80)}\n\n`)}`;
}
