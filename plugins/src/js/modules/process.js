const { process } = globalThis[Symbol.for("understudy.modules")];
export const { argv, cwd, env, nextTick, platform, version, versions } = process;
export default process;
