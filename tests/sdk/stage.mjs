// What the scripts for Node share: where the gateway is, what it counts, and how facts are told.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const MODULES = process.env.SDK_MODULES;
const resolve = createRequire(join(MODULES, "anchor.js")).resolve;
export const API = process.env.UNDERSTUDY_API;
const ADMIN = process.env.UNDERSTUDY_ADMIN;
export const CLIENT_KEY = "client-key";
// the wire formats of the providers, as chains and providers are named by them
export const UPSTREAMS = ["chat", "responses", "messages", "gemini"];
// how long anything may take that should be quick, in milliseconds
export const PATIENCE = 20_000;
export const LINES = "I know my lines.";
export const STORY = "Once upon a time there was an understudy.";
export const FORECAST = "It rains in Oslo.";
export const SCHEMA = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

/** A package out of the folder of modules, which need not be beside the scripts. */
export const load = (name) => import(pathToFileURL(resolve(name)).href);

/** Who answers for a lead that has no room: the next wire format. */
export const after = (upstream) => UPSTREAMS[(UPSTREAMS.indexOf(upstream) + 1) % UPSTREAMS.length];

/** The sum of a metric's samples that hold every label given. */
export async function count(name, ...labels) {
  const page = await (await fetch(`${ADMIN}/metrics`)).text();
  const lines = page.split("\n").filter((line) => line.startsWith(`${name}{`));
  const matching = lines.filter((line) => labels.every((label) => line.includes(label)));
  return matching.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

const attempts = (provider) => count("understudy_model_attempts_total", `provider="${provider}"`);
export const turns = () => count("understudy_turns_total");

/** Asks a chain that leads nowhere, and asserts that it was walked exactly once: its last model is asked three times. */
export async function walksOnce(upstream, ask) {
  const seen = async () => [await attempts(`${upstream}-full`), await attempts(`${upstream}-down`), await turns()];
  const before = await seen();
  const answer = await ask(`${upstream}-exhausted`);
  const walked = (await seen()).map((now, n) => now - before[n]);
  assert.deepEqual(walked, [1, 3, 1], "lead, last and turns");
  return answer;
}

/** The error of exactly this class that `call` rejects with. */
export async function raised(kind, call) {
  let given;
  try {
    given = await call();
  } catch (error) {
    assert.equal(error.constructor, kind, `${error.constructor.name}: ${error.message}`);
    return error;
  }
  assert.fail(`nothing was raised, but given: ${JSON.stringify(given)}`);
}

/** Checks every fact; one that takes an upstream is checked for each wire format. */
export async function tell(name, facts) {
  let told = 0;
  let failed = 0;
  for (const fact of facts) {
    for (const given of fact.length > 0 ? UPSTREAMS.map((upstream) => [upstream]) : [[]]) {
      const words = fact.name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
      const title = [words, ...given.map((it) => `(${it})`)].join(" ");
      told += 1;
      try {
        await fact(...given);
        console.log(`ok      ${title}`);
      } catch (error) {
        failed += 1;
        const own = String(error.stack).match(/[a-z_]+\.mjs:\d+/g) ?? [];
        const message = String(error.message).replaceAll("\n", " ");
        console.log(`FAILED  ${title}: ${error.constructor.name} in ${own.join(" < ")}: ${message}`);
      }
    }
  }
  const { version } = JSON.parse(readFileSync(join(MODULES, name, "package.json"), "utf8"));
  console.log(`${name} ${version}: ${told - failed} facts hold, ${failed} do not`);
  process.exit(failed ? 1 : 0);
}
