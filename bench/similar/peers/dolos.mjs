// All pairs of a folder of files as left,right,similarity,longer: node dolos.mjs FOLDER OUT
import { Dolos } from "@dodona/dolos-lib";
import { readdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

const [folder, out] = process.argv.slice(2);
const files = readdirSync(folder).filter((f) => f.endsWith(".java")).sort().map((f) => join(folder, f));
const report = await new Dolos({ language: "java" }).analyzePaths(files);
const share = (p) => Math.max(p.leftCovered / Math.max(1, p.leftTotal), p.rightCovered / Math.max(1, p.rightTotal));
writeFileSync(out, report.allPairs().map((p) => [basename(p.leftFile.path), basename(p.rightFile.path), p.similarity, share(p)].join(",")).join("\n") + "\n");
