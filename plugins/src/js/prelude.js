// What a plugin finds in place before its own code runs. `host` is what the engine's thread lends it; what is answered here is
// what that thread calls. Intrinsics are taken at the start: a plugin that bends them bends only its own.
(function (host, id, settings, folder) {
  "use strict";

  const { parse, stringify } = JSON;
  const { apply, construct, get, getOwnPropertyDescriptor, has, ownKeys, set } = Reflect;
  const { defineProperty } = Object;
  const hide = (target, name, value) =>
    defineProperty(target, name, { value, writable: true, configurable: true, enumerable: false });

  // ---- words

  function words(value) {
    try {
      if (value instanceof Error) {
        const name = String(value.name);
        const message = String(value.message);
        return (name === "Error" ? message : `${name}: ${message}`).toWellFormed();
      }
      if (typeof value === "object" && value !== null) return (stringify(value) ?? String(value)).toWellFormed();
      return String(value).toWellFormed();
    } catch {
      return "something that cannot be put into words";
    }
  }

  const line = (parts) => parts.map((part) => (typeof part === "string" ? part.toWellFormed() : words(part))).join(" ");
  const log = (level) => (...parts) => host.log(level, line(parts));
  const logger = Object.freeze({ debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") });
  hide(globalThis, "console", {
    debug: logger.debug,
    error: logger.error,
    info: logger.info,
    log: logger.info,
    trace: logger.debug,
    warn: logger.warn,
  });

  // ---- time: the gateway's

  const now = host.now;
  const EngineDate = Date;
  function GatewayDate(...parts) {
    if (!new.target) return new EngineDate(now()).toString();
    return construct(EngineDate, parts.length === 0 ? [now()] : parts, new.target);
  }
  defineProperty(GatewayDate, "name", { value: "Date" });
  defineProperty(GatewayDate, "length", { value: 7 });
  GatewayDate.prototype = EngineDate.prototype;
  hide(EngineDate.prototype, "constructor", GatewayDate);
  hide(GatewayDate, "now", () => now());
  hide(GatewayDate, "parse", EngineDate.parse);
  hide(GatewayDate, "UTC", EngineDate.UTC);
  hide(globalThis, "Date", GatewayDate);

  const timers = new Map();
  let lastTimer = 0;
  class Timeout {
    #number;
    constructor(number) {
      this.#number = number;
    }
    ref() {
      return this;
    }
    unref() {
      return this;
    }
    hasRef() {
      return true;
    }
    [Symbol.toPrimitive]() {
      return this.#number;
    }
  }
  function start(repeats, callback, delay, rest) {
    if (typeof callback !== "function") throw new TypeError("a timer needs a function");
    const wait = Math.min(Math.max(Number(delay) || 0, repeats ? 1 : 0), 2147483647);
    lastTimer += 1;
    host.startTimer(lastTimer, wait);
    timers.set(lastTimer, { callback, repeats, rest, wait });
    return new Timeout(lastTimer);
  }
  function clear(timer) {
    if (timer === undefined || timer === null) return;
    const number = Number(timer);
    if (timers.delete(number)) host.stopTimer(number);
  }
  function ring(number) {
    const timer = timers.get(number);
    if (timer === undefined) return;
    if (timer.repeats) host.startTimer(number, timer.wait);
    else timers.delete(number);
    apply(timer.callback, undefined, timer.rest);
  }
  hide(globalThis, "setTimeout", (callback, delay, ...rest) => start(false, callback, delay, rest));
  hide(globalThis, "setInterval", (callback, delay, ...rest) => start(true, callback, delay, rest));
  hide(globalThis, "setImmediate", (callback, ...rest) => start(false, callback, 0, rest));
  hide(globalThis, "clearTimeout", clear);
  hide(globalThis, "clearInterval", clear);
  hide(globalThis, "clearImmediate", clear);
  const microtask = async (callback) => {
    await undefined;
    callback();
  };
  hide(globalThis, "queueMicrotask", (callback) => {
    if (typeof callback !== "function") throw new TypeError("a microtask needs a function");
    microtask(callback);
  });

  // ---- bytes

  function decode(bytes, fatal) {
    let letters = "";
    for (let at = 0; at < bytes.length; at += 4096) {
      letters += apply(String.fromCharCode, undefined, bytes.subarray(at, at + 4096));
    }
    return host.decode(letters, fatal);
  }
  class TextEncoder {
    get encoding() {
      return "utf-8";
    }
    encode(text = "") {
      return host.encode(String(text).toWellFormed());
    }
  }
  class TextDecoder {
    #fatal;
    constructor(label = "utf-8", options = {}) {
      if (!/^utf-?8$/i.test(String(label))) throw new RangeError(`the encoding ${words(label)} is not here, utf-8 is`);
      this.#fatal = Boolean(options?.fatal);
    }
    get encoding() {
      return "utf-8";
    }
    get fatal() {
      return this.#fatal;
    }
    decode(bytes) {
      if (bytes === undefined) return "";
      const view = ArrayBuffer.isView(bytes)
        ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
        : new Uint8Array(bytes);
      return decode(view, this.#fatal);
    }
  }
  hide(globalThis, "TextEncoder", TextEncoder);
  hide(globalThis, "TextDecoder", TextDecoder);

  // ---- files: read-only

  class Bytes extends Uint8Array {
    toString() {
      return decode(new Uint8Array(this.buffer, this.byteOffset, this.byteLength), false);
    }
  }
  const place = (path) => {
    const text = path instanceof Uint8Array ? new TextDecoder().decode(path) : path;
    if (typeof text !== "string") throw new TypeError("a path is a text");
    return text.toWellFormed();
  };
  function readFileSync(path, options) {
    const encoding = typeof options === "string" ? options : options?.encoding;
    if (encoding === undefined || encoding === null) return new Bytes(host.readBytes(place(path)).buffer);
    if (!/^(utf-?8|ascii)$/i.test(encoding)) throw new RangeError(`the encoding ${words(encoding)} is not here, utf8 is`);
    return host.readText(place(path));
  }
  class Entry {
    constructor(facts) {
      Object.assign(this, facts);
    }
    isFile() {
      return this.kind === "file";
    }
    isDirectory() {
      return this.kind === "folder";
    }
    isSymbolicLink() {
      return this.kind === "link";
    }
  }
  function statSync(path, options) {
    try {
      const facts = parse(host.stat(place(path)));
      return Object.assign(new Entry(facts), { mtime: new EngineDate(facts.mtimeMs) });
    } catch (error) {
      if (options?.throwIfNoEntry === false && error?.code === "ENOENT") return undefined;
      throw error;
    }
  }
  function readdirSync(path, options) {
    const entries = parse(host.list(place(path)));
    return options?.withFileTypes ? entries.map((facts) => new Entry(facts)) : entries.map((facts) => facts.name);
  }
  function existsSync(path) {
    try {
      host.stat(place(path));
      return true;
    } catch {
      return false;
    }
  }
  const accessSync = (path) => void host.stat(place(path));
  const realpathSync = (path) => host.realpath(place(path));
  const refuse = (name) => () => {
    const error = new Error(`EROFS: files are read-only here, ${name}`);
    error.code = "EROFS";
    throw error;
  };
  const fs = { accessSync, existsSync, readFileSync, readdirSync, realpathSync, statSync, lstatSync: statSync };
  const promises = {};
  for (const name of ["access", "readFile", "readdir", "realpath", "stat"]) {
    const now = fs[`${name}Sync`];
    promises[name] = async (...given) => now(...given);
    fs[name] = (...given) => {
      const callback = given.pop();
      if (typeof callback !== "function") throw new TypeError(`${name} needs a callback; promises.${name} does not`);
      promises[name](...given).then((value) => callback(null, value), callback);
    };
  }
  promises.lstat = promises.stat;
  for (const name of ["appendFile", "copyFile", "mkdir", "rename", "rm", "unlink", "writeFile"]) {
    fs[name] = fs[`${name}Sync`] = refuse(name);
    promises[name] = async () => refuse(name)();
  }
  fs.promises = promises;

  // ---- surroundings

  const process = {
    argv: [],
    cwd: () => folder,
    env: {},
    nextTick: (callback, ...rest) => queueMicrotask(() => callback(...rest)),
    platform: "linux",
    version: "",
    versions: {},
  };
  hide(globalThis, "process", process);

  // ---- what was granted of the world outside

  const fetches = new Map();
  let lastFetch = 0;
  class Headers {
    #entries = [];
    constructor(given) {
      const pairs = given instanceof Headers || Array.isArray(given) ? given : Object.entries(given ?? {});
      for (const [name, value] of pairs) this.append(name, value);
    }
    append(name, value) {
      this.#entries.push([String(name).toLowerCase().toWellFormed(), String(value).toWellFormed()]);
    }
    get(name) {
      const own = this.#entries.filter(([known]) => known === String(name).toLowerCase());
      return own.length === 0 ? null : own.map(([, value]) => value).join(", ");
    }
    has(name) {
      return this.get(name) !== null;
    }
    forEach(callback) {
      for (const [name, value] of this) callback(value, name, this);
    }
    entries() {
      return this[Symbol.iterator]();
    }
    *[Symbol.iterator]() {
      yield* this.#entries.map(([name, value]) => [name, value]);
    }
  }
  class Response {
    #body;
    constructor(status, headers, body, url) {
      this.headers = headers;
      this.ok = status >= 200 && status < 300;
      this.status = status;
      this.url = url;
      this.#body = body;
    }
    async text() {
      return this.#body;
    }
    async json() {
      return parse(this.#body);
    }
  }
  hide(globalThis, "Headers", Headers);
  hide(globalThis, "fetch", async (resource, options) => {
    const { body, headers, method } = options ?? {};
    if (body !== undefined && body !== null && typeof body !== "string") throw new TypeError("a body is a text");
    const url = String(resource).toWellFormed();
    const written = { url, headers: [...new Headers(headers)] };
    if (method !== undefined) written.method = String(method).toWellFormed();
    if (typeof body === "string") written.body = body.toWellFormed();
    lastFetch += 1;
    const number = lastFetch;
    host.fetch(number, stringify(written));
    return new Promise((resolve, reject) => fetches.set(number, { resolve, reject, url }));
  });
  function fetched(number, failure, status, headers, body) {
    const waiting = fetches.get(number);
    fetches.delete(number);
    if (failure !== "") return waiting.reject(new TypeError(`fetch failed: ${failure}`));
    waiting.resolve(new Response(status, new Headers(parse(headers)), body, waiting.url));
  }
  hide(globalThis, Symbol.for("understudy.modules"), { fs, process });

  // ---- registration

  const handlers = [];
  const tools = new Map();
  const services = new Map();
  const routes = new Map();
  let contextEngine;
  let loading = true;
  const warn = (text) => (loading ? host.warn(text) : host.log("warn", text));

  function on(name, handler, options) {
    if (!loading) return warn(`${words(name)}: is registered too late, after the plugin was loaded`);
    if (typeof handler !== "function") return warn(`${words(name)}: the handler is not a function`);
    const { matcher, priority, requiresToolAuthority, timeoutMs } = options ?? {};
    const facts = stringify({ matcher, priority, requiresToolAuthority, timeoutMs });
    if (host.on(String(name).toWellFormed(), handlers.length, facts)) handlers.push(handler);
  }
  function registerTrustedToolPolicy(policy) {
    const { evaluate, id: name } = Object(policy);
    if (!loading) return warn(`policy ${words(name)}: is registered too late, after the plugin was loaded`);
    if (typeof evaluate !== "function") return warn(`policy ${words(name)} is refused: it has no evaluate`);
    if (host.policy(String(name).toWellFormed(), handlers.length)) {
      handlers.push((event, ctx) => apply(evaluate, policy, [event, ctx]));
    }
  }
  function registerTool(tool) {
    const name = tool?.name;
    if (!loading) return warn(`tool ${words(name)}: is registered too late, after the plugin was loaded`);
    if (typeof tool === "function") return warn("a tool that a function makes is not here: give the tool itself");
    const { description, execute, parameters, replaySafe, run } = Object(tool);
    if (typeof execute !== "function" && typeof run !== "function") {
      return warn(`tool ${words(name)}: has neither execute nor run`);
    }
    const facts = {
      name,
      description: description === undefined ? undefined : String(description),
      parameters: parameters === undefined ? undefined : stringify(parameters),
      replaySafe: replaySafe === true,
    };
    if (host.tool(stringify(facts))) tools.set(name, tool);
  }
  const early = (what) => loading || void warn(`${what}: is registered too late, after the plugin was loaded`);
  function registerService(service) {
    const name = String(Object(service).id).toWellFormed();
    if (!early(`service ${name}`)) return;
    if (typeof service?.start !== "function") return warn(`service ${name} is refused: it has no start`);
    if (host.service(name)) services.set(name, service);
  }
  function registerHttpRoute(route) {
    const { auth, handler, match, path } = Object(route);
    const name = String(path).toWellFormed();
    if (!early(`route ${name}`)) return;
    if (typeof handler !== "function") return warn(`route ${name} is refused: it has no handler`);
    if (host.route(name, stringify({ auth, match }))) routes.set(name, route);
  }
  function registerContextEngine(engine) {
    if (!early("context engine")) return;
    if (typeof engine?.assemble !== "function") return warn("context engine is refused: it has no assemble");
    if (host.contextEngine()) contextEngine = engine;
  }
  function registerCommand(command) {
    const { description, name } = Object(command);
    const words = (value) => (value === undefined ? undefined : String(value).toWellFormed());
    if (early(`command ${name}`)) host.command(String(name).toWellFormed(), words(description));
  }
  const known = {
    id,
    name: id,
    config: {},
    logger,
    pluginConfig: parse(settings),
    registrationMode: "full",
    resolvePath: (path) => host.resolve(place(path)),
    rootDir: folder,
    on,
    registerHook(names, handler, options) {
      for (const name of Array.isArray(names) ? names : [names]) on(name, handler, options);
    },
    registerCommand,
    registerContextEngine,
    registerHttpRoute,
    registerService,
    registerTool,
    registerTrustedToolPolicy,
  };
  const api = new Proxy(known, {
    get(target, name) {
      const value = get(target, name);
      if (value !== undefined || typeof name !== "string" || !name.startsWith("register")) return value;
      return () => warn(`${name} is not here: nothing is registered by it`);
    },
  });

  async function begin(entry) {
    try {
      const module = await import(entry);
      const plugin = module.default ?? module;
      const register = typeof plugin === "function" ? plugin : (plugin.register ?? plugin.activate);
      if (typeof register !== "function") throw new Error("the entry exports no plugin: an object with register(api)");
      if (plugin.id !== undefined && plugin.id !== id) {
        warn(`the entry calls itself ${words(plugin.id)}, the manifest's word holds`);
      }
      await apply(register, plugin, [api]);
      loading = false;
      host.loaded("");
    } catch (error) {
      loading = false;
      host.loaded(words(error) || "failed without a word");
    }
  }

  // ---- calls

  const live = new Map();

  function abortable() {
    const listeners = [];
    const signal = {
      aborted: false,
      onabort: null,
      reason: undefined,
      addEventListener(type, listener) {
        if (type === "abort" && typeof listener === "function" && listeners.length < 100) listeners.push(listener);
      },
      removeEventListener(_, listener) {
        const place = listeners.indexOf(listener);
        if (place >= 0) listeners.splice(place, 1);
      },
      throwIfAborted() {
        if (signal.aborted) throw signal.reason;
      },
    };
    const abort = () => {
      signal.aborted = true;
      signal.reason = new Error("nobody waits any longer");
      const event = { type: "abort", target: signal };
      for (const listener of [signal.onabort, ...listeners]) {
        if (typeof listener === "function") listener(event);
      }
    };
    return { abort, signal };
  }

  // looking at a conversation is what costs: it is read when it is asked for, and once
  function lazy(event, number, field) {
    defineProperty(event, field, {
      configurable: true,
      enumerable: true,
      get() {
        const text = host.field(number, field);
        const value = text === undefined ? undefined : parse(text);
        defineProperty(event, field, { value, writable: true, configurable: true, enumerable: true });
        return value;
      },
      set(value) {
        defineProperty(event, field, { value, writable: true, configurable: true, enumerable: true });
      },
    });
  }

  // a field that may not be known is absent then: that is found out when somebody asks whether it is there
  function unsure(event, number, fields) {
    if (fields.length === 0) return event;
    const unknown = new Set(fields);
    const learn = (field) => {
      if (unknown.delete(field) && event[field] === undefined) delete event[field];
    };
    for (const field of fields) lazy(event, number, field);
    return new Proxy(event, {
      has(target, name) {
        learn(name);
        return has(target, name);
      },
      ownKeys(target) {
        for (const field of fields) learn(field);
        return ownKeys(target);
      },
      getOwnPropertyDescriptor(target, name) {
        learn(name);
        return getOwnPropertyDescriptor(target, name);
      },
      set(target, name, value) {
        unknown.delete(name);
        return set(target, name, value);
      },
    });
  }

  // what is good for one call, and dead when nobody waits for it any longer
  function held(number, ctx, hook) {
    if (hook !== "before_prompt_build") return;
    const assertActive = () => {
      if (!live.has(number) || !host.waitedFor(number)) throw new Error("the handler's call is over");
    };
    ctx.hookInvocation = Object.freeze({ assertActive });
    if (ctx.toolAuthority === undefined) return;
    const { fingerprint, tools } = ctx.toolAuthority;
    const names = new Set(tools);
    const allows = (name) => {
      assertActive();
      return names.has(name);
    };
    ctx.toolAuthority = Object.freeze({ fingerprint, allows, assertActive });
  }

  async function run(number, work) {
    let kind = "answer";
    let text;
    try {
      const answer = await work();
      // a handler that returns nothing has no opinion; null is an answer
      text = answer === undefined ? "" : stringify(answer);
      if (text === undefined) kind = "invalid";
    } catch (error) {
      kind = "failed";
      text = words(error);
    }
    live.delete(number);
    host.settle(number, kind, text ?? "");
  }

  function call(number, handler, hook, facts, fields, perhaps, context) {
    const told = parse(facts);
    for (const field of fields) lazy(told, number, field);
    const event = unsure(told, number, perhaps);
    const ctx = parse(context);
    const { abort, signal } = abortable();
    ctx.abortSignal = signal;
    live.set(number, abort);
    held(number, ctx, hook);
    run(number, () => handlers[handler](event, ctx));
  }

  function callTool(number, name, callId, params, context) {
    const tool = tools.get(name);
    const ctx = parse(context);
    const { abort, signal } = abortable();
    ctx.abortSignal = signal;
    live.set(number, abort);
    run(number, () => {
      if (typeof tool.execute === "function") return tool.execute(callId, parse(params), signal);
      return tool.run(parse(params), ctx);
    });
  }

  // nothing is an answer of none: whether a service started is all that is asked
  function callService(number, name, turn) {
    const service = services.get(name);
    const { abort, signal } = abortable();
    live.set(number, abort);
    const ctx = { abortSignal: signal, config: {}, logger, pluginConfig: known.pluginConfig };
    run(number, async () => {
      if (typeof service[turn] === "function") await service[turn](ctx);
    });
  }

  function callRoute(number, path, written) {
    const route = routes.get(path);
    const { abort, signal } = abortable();
    live.set(number, abort);
    run(number, () => route.handler(Object.assign(parse(written), { abortSignal: signal })));
  }

  function callEngine(number, work, told, context) {
    const { abort, signal } = abortable();
    const ctx = parse(context);
    ctx.abortSignal = signal;
    live.set(number, abort);
    run(number, () => {
      if (typeof contextEngine[work] === "function") return contextEngine[work](parse(told), ctx);
    });
  }

  function cancel(number) {
    const abort = live.get(number);
    live.delete(number);
    if (abort !== undefined) abort();
  }

  return { begin, call, callEngine, callRoute, callService, callTool, cancel, fetched, ring };
});
