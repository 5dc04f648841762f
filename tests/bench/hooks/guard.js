// The plugin of the bench, in JavaScript: says nothing, and looks at as much of the conversation as its settings say.
import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";

const length = (message) => message.content.reduce((sum, part) => sum + (part.text?.length ?? 0), 0);

const looks = {
  nothing: () => 1,
  last: (event) => length(event.messages.at(-1)),
  all: (event) => event.messages.reduce((sum, message) => sum + length(message), 0),
};

export default definePluginEntry({
  id: "bench",
  register(api) {
    const look = looks[api.pluginConfig.look];
    for (const hook of api.pluginConfig.hooks) {
      api.on(hook, (event) => {
        if (look(event) === 0) throw new Error("saw nothing");
      });
    }
  },
});
