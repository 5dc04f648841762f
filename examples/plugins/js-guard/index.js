import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";

export default definePluginEntry({
  id: "js-guard",
  register(api) {
    const words = api.pluginConfig.words ?? ["rm -rf"];

    api.on("before_tool_call", (event) => {
      const word = words.find((word) => JSON.stringify(event.params).includes(word));
      if (word === undefined) return undefined; // no opinion

      // absent unless the operator has set allowConversationAccess; read only when it is looked at
      const users = (event.messages ?? []).filter((message) => message.role === "user");
      const asked = users.some((message) => JSON.stringify(message.content).includes(word));
      api.logger.warn(`blocked ${event.toolName}`);
      return {
        block: true,
        blockReason: `The arguments hold "${word}", which is forbidden${asked ? ", also when the user asks for it" : ""}.`,
      };
    });
  },
});
