// The plugin of the conformance suite, in JavaScript. What `params.do` of a tool call says is done.
import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";

let release;
const released = new Promise((resolve) => {
  release = resolve;
});

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function gate(event) {
  switch (event.params.do) {
    case "block":
      return { block: true, blockReason: "no" };
    case "params":
      return { params: { a: 2 } };
    case "null":
      return null;
    case "throw":
      throw new Error("thrown\non two lines");
    case "hang":
      for (;;);
    case "garbage":
      return { block: "perhaps" };
    case "conversation": {
      const seen = {};
      for (const key of ["systemPrompt", "messages", "tools"]) if (key in event) seen[key] = event[key];
      return { params: { seen } };
    }
    case "wait":
      await released;
      return { params: { order: "second" } };
    case "release":
      release();
      return { params: { order: "first" } };
    case "idle":
      return new Promise(() => {});
    case "late":
      await wait(200);
      return { block: true, blockReason: "too late" };
    case "crash": {
      for (let time = 0; time < 1000; time += 1) Promise.reject(new Error("storm"));
      const fall = () => fall() + 1;
      return fall();
    }
    default:
      return undefined;
  }
}

async function policy(event) {
  switch (event.params.do) {
    case "deny":
      return { allow: false, reason: "no" };
    case "allow":
      return { allow: true };
    case "ask":
      return { requireApproval: { title: "may it?" } };
    case "unheard":
      return { verdict: "deny" };
    default:
      return gate(event);
  }
}

let kept;
function authorised(event, { hookInvocation, toolAuthority }) {
  const before = kept;
  kept = { hookInvocation, toolAuthority };
  if (event.prompt === "kept") {
    const calls = [
      () => before.toolAuthority.allows("read"),
      () => before.toolAuthority.assertActive(),
      () => before.hookInvocation.assertActive(),
    ];
    for (const call of calls) {
      try {
        call();
        return { prependContext: "the one before still holds" };
      } catch {}
    }
    return { prependContext: "the one before is over" };
  }
  hookInvocation.assertActive();
  toolAuthority.assertActive();
  return { prependContext: `read ${toolAuthority.allows("read")}, exec ${toolAuthority.allows("exec")}` };
}

function run(event) {
  switch (event.prompt) {
    case "stop":
      return { outcome: "block", reason: "said so", status: 451 };
    case "silence":
      return undefined;
    default:
      return { outcome: "pass" };
  }
}

export default definePluginEntry({
  id: "probe",
  register(api) {
    api.on("before_agent_start", () => undefined);
    api.on("before_tool_call", gate, { priority: 5, timeoutMs: 250, matcher: ["exec"] });
    api.on("before_agent_run", run);
    api.on("before_prompt_build", (_, context) => ({ prependContext: `for ${context.modelId}` }), { priority: -1 });
    api.on("before_model_resolve", () => ({ modelOverride: "other", fallbacks: [] }));
    api.on("before_agent_reply", (event) => ({ handled: true, reply: event.cleanedBody }));
    api.on("agent_end", () => "an observer's answer");
    api.on("before_prompt_build", authorised, { requiresToolAuthority: true });
    api.registerTrustedToolPolicy({ id: "budget", evaluate: policy });
    api.registerTrustedToolPolicy({ id: "budget", evaluate: policy });
    api.registerTool({
      name: "echo",
      description: "Says it again.",
      parameters: { type: "object" },
      replaySafe: true,
      run: (params) => ({ echo: params }),
    });
    let state = "idle";
    api.registerService({
      id: "poller",
      async start({ pluginConfig }) {
        await wait(1);
        state = pluginConfig ? "started" : "without its settings";
      },
      stop() {
        state = "stopped";
      },
    });
    const broken = async () => {
      throw new Error("as asked");
    };
    api.registerService({ id: "broken", start: broken, stop: broken });
    api.registerHttpRoute({ path: "/state", handler: () => ({ body: state }) });
    api.registerHttpRoute({
      path: "/echo",
      match: "prefix",
      auth: "gateway",
      async handler({ body, headers, method, path, query }) {
        if (body === "throw") throw new Error("as asked");
        if (body === "garbage") return { stauts: 200 };
        return { status: 201, headers: { "X-Probe": "yes" }, body: [method, path, query, headers["x-from"], body] };
      },
    });
    api.registerCommand({ name: "sync", description: "Fetches it all." });
  },
});
