// Paths of POSIX, by their text alone.
const { process } = globalThis[Symbol.for("understudy.modules")];

function text(path) {
  if (typeof path !== "string") throw new TypeError("a path is a text");
  return path;
}

// The parts without ".", and without what ".." takes back. Above the root there is nothing.
function parts(path, rooted) {
  const kept = [];
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") kept.push(part);
    else if (kept.length > 0 && kept.at(-1) !== "..") kept.pop();
    else if (!rooted) kept.push("..");
  }
  return kept;
}

export const sep = "/";
export const delimiter = ":";

export function isAbsolute(path) {
  return text(path).startsWith("/");
}

export function normalize(path) {
  const rooted = isAbsolute(path);
  const kept = parts(path, rooted).join("/");
  const slash = path.endsWith("/") && kept !== "" ? "/" : "";
  if (rooted) return `/${kept}${slash}`;
  return kept === "" ? (path.endsWith("/") ? "./" : ".") : `${kept}${slash}`;
}

export function join(...given) {
  const joined = given.map(text).filter((path) => path !== "").join("/");
  return joined === "" ? "." : normalize(joined);
}

export function resolve(...given) {
  let path = "";
  for (const part of [process.cwd(), ...given].map(text)) {
    if (part !== "") path = isAbsolute(part) ? part : `${path}/${part}`;
  }
  return `/${parts(path, true).join("/")}`;
}

export function dirname(path) {
  const trimmed = text(path).replace(/(?<=.)\/+$/, "");
  const end = trimmed.lastIndexOf("/");
  if (end < 0) return ".";
  return trimmed.slice(0, end).replace(/\/+$/, "") || "/";
}

export function basename(path, suffix = "") {
  const trimmed = text(path).replace(/\/+$/, "");
  const name = trimmed.slice(trimmed.lastIndexOf("/") + 1);
  return suffix !== "" && name !== suffix && name.endsWith(suffix) ? name.slice(0, -suffix.length) : name;
}

export function extname(path) {
  const name = basename(path);
  const dot = name.lastIndexOf(".");
  return dot <= 0 || name === ".." ? "" : name.slice(dot);
}

export function relative(from, to) {
  const start = parts(resolve(from), true);
  const goal = parts(resolve(to), true);
  let same = 0;
  while (same < start.length && same < goal.length && start[same] === goal[same]) same += 1;
  return [...start.slice(same).map(() => ".."), ...goal.slice(same)].join("/");
}

export function parse(path) {
  const base = basename(path);
  const ext = extname(path);
  const folder = dirname(path);
  return {
    root: isAbsolute(path) ? "/" : "",
    dir: folder === "." && !path.startsWith(".") ? "" : folder,
    base,
    ext,
    name: ext === "" ? base : base.slice(0, -ext.length),
  };
}

const path = { basename, delimiter, dirname, extname, isAbsolute, join, normalize, parse, relative, resolve, sep };
path.posix = path;
export const posix = path;
export default path;
