const { promises } = globalThis[Symbol.for("understudy.modules")].fs;
export const {
  access, appendFile, copyFile, lstat, mkdir, readFile, readdir, realpath, rename, rm, stat, unlink, writeFile,
} = promises;
export default promises;
