const { fs } = globalThis[Symbol.for("understudy.modules")];
export const {
  access, accessSync, appendFile, appendFileSync, copyFile, copyFileSync, existsSync, lstatSync, mkdir, mkdirSync, promises,
  readFile, readFileSync, readdir, readdirSync, realpath, realpathSync, rename, renameSync, rm, rmSync, stat, statSync, unlink,
  unlinkSync, writeFile, writeFileSync,
} = fs;
export default fs;
