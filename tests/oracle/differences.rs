//! Where the app differs from what was recorded, and means to. Why is told in `docs/decisions/0012`.

/// Every difference, as the comparison words it.
pub(crate) const MEANT: &[&str] = &[
    // Channels, senders and projects are of a chat product; a gateway has none
    "context activeProjectKeys, recorded only: agent_turn_prepare, before_agent_reply, before_agent_run, before_model_resolve, before_prompt_build",
    "context channel, recorded only: agent_end, agent_turn_prepare, before_agent_reply, before_agent_run, before_model_resolve, before_prompt_build, llm_input, llm_output",
    "context channelContext, recorded only: agent_end",
    "context channelId, recorded only: agent_end, agent_turn_prepare, before_agent_reply, before_agent_run, before_model_resolve, before_prompt_build, llm_input, llm_output",
    "context chatId, recorded only: agent_end, agent_turn_prepare, before_agent_reply, before_agent_run, before_model_resolve, before_prompt_build, llm_input, llm_output",
    "context messageProvider, recorded only: agent_end, agent_turn_prepare, before_agent_reply, before_agent_run, before_model_resolve, before_prompt_build, llm_input, llm_output",
    "context requester, recorded only: before_tool_call",
    "event channelId, recorded only: before_agent_run",
    "event senderIsOwner, recorded only: before_agent_run",
    // What only the recorded runtime has: where a window's size comes from, its own name, its memory, handles of its own
    "context abortSignal, recorded only: before_tool_call",
    "context contextWindowSource, recorded only: llm_output, model_call_ended, model_call_started",
    "context hookInvocation, recorded only: before_prompt_build",
    "event contextWindowSource, recorded only: llm_output, model_call_ended, model_call_started",
    "event harnessId, recorded only: llm_output",
    "event memory, recorded only: model_call_ended",
    // A guard of tools sees what it judges in
    "event messages, ours only: before_tool_call",
    "event systemPrompt, ours only: before_tool_call",
    "event tools, ours only: before_tool_call",
    // Every hook is told of the same agent, workspace, model and window, as far as they are known; why a turn failed; what was asked
    "context agentId, ours only: model_call_ended, model_call_started",
    "context contextTokenBudget, ours only: after_tool_call, agent_turn_prepare, before_agent_reply, before_agent_run, before_model_resolve, before_prompt_build, before_tool_call, llm_input",
    "context modelId, ours only: after_tool_call, before_tool_call, llm_input, llm_output",
    "context modelProviderId, ours only: after_tool_call, before_tool_call, llm_input, llm_output",
    "context origin, ours only: after_tool_call, agent_end, agent_turn_prepare, before_agent_reply, before_agent_run, before_model_resolve, before_prompt_build, before_tool_call, llm_input, llm_output, model_call_ended, model_call_started",
    "context trigger, ours only: after_tool_call, before_tool_call, model_call_ended, model_call_started",
    "context workspaceDir, ours only: after_tool_call, before_tool_call, model_call_ended, model_call_started",
    "event error, ours only: agent_end",
    "event prompt, ours only: llm_output",
    // A turn, a candidate and a call are three things, and each hook belongs to one of them
    "once for each: agent_end: recorded {\"try\"}, ours {\"turn\"}",
    "once for each: agent_turn_prepare: recorded {\"try\"}, ours {\"candidate that is asked\"}",
    "once for each: before_agent_run: recorded {\"try\"}, ours {\"candidate that is asked\"}",
    "once for each: before_model_resolve: recorded {\"candidate\"}, ours {\"turn\"}",
    "once for each: before_prompt_build: recorded {\"try\"}, ours {\"candidate that is asked\"}",
    "once for each: llm_input: recorded {\"try\"}, ours {\"call\"}",
    "once for each: llm_output: recorded {\"try\"}, ours {\"answer\"}",
    "order: recorded after_tool_call before llm_output, ours after",
    "order: recorded agent_end before llm_output, ours after",
    "order: recorded before_agent_reply before before_model_resolve, ours after",
    // A stream that breaks goes on with another model, and so does an answer that breaks off
    "drop-h1 turn 1: client: recorded Broken, ours Continued(B)",
    "drop-q1 turn 1: client: recorded Broken, ours Continued(B)",
    "dropx1-h1 turn 1: asked: recorded [A], ours [A, B]",
    "dropx1-h1 turn 1: client: recorded Broken, ours Continued(B)",
    "eof-h1 turn 1: asked: recorded [A], ours [A, B]",
    "eof-h1 turn 1: client: recorded Broken, ours Continued(B)",
    "eof-q2 turn 1: asked: recorded [A], ours [A, B]",
    "eof-q2 turn 1: client: recorded Answer(A), ours Answer(B)",
    "eof-q2 turn 1: whoever answered had the canon: recorded false, ours true",
    // Whoever hangs is left for the next one
    "hang-h1 turn 1: asked: recorded [A], ours [A, B]",
    "hang-h1 turn 1: client: recorded Error, ours Answer(B)",
    // What a provider cannot accept is the client's to change: no other model is asked
    "s400-f1 turn 1: asked: recorded [A, B], ours [A]",
    "s400-f1 turn 1: client: recorded Answer(B), ours Error",
    "s400-f1 turn 2: asked: recorded [A, B], ours [A]",
    "s400-f1 turn 2: client: recorded Answer(B), ours Error",
    "s400-f1 turn 2: first request to A has the canon: recorded true, ours false",
    // Who is known to be away rests and is not asked again by the next turn
    "s404-h1 turn 2: asked: recorded [A, B], ours [B]",
    "s404-h1 turn 2: first request to B has the canon: recorded true, ours false",
    "s404-h1 turn 2: whoever answered had the canon: recorded true, ours false",
    "s429long-f1 turn 2: asked: recorded [A, B], ours [B]",
    "s429long-f1 turn 2: first request to B has the canon: recorded true, ours false",
    "s429long-f1 turn 2: whoever answered had the canon: recorded true, ours false",
    // A prompt is built once for each candidate and is the same for each of its tries: who answers after a retry has the canon
    "s429ra-f1 turn 1: whoever answered had the canon: recorded false, ours true",
    "s500x1-f1 turn 1: whoever answered had the canon: recorded false, ours true",
    // The guard that failed is named, in the words that clients get too
    "tool-s turn 1: told of its calls: recorded [\"{\\n  \\\"status\\\": \\\"error\\\",\\n  \\\"tool\\\": \\\"exec\\\",\\n  \\\"error\\\": \\\"Tool call blocked because before_tool_call hook failed\\\"\\n}\"], ours [\"Blocked: the guard gate could not judge.\"]",
    "tool-t turn 1: told of its calls: recorded [\"{\\n  \\\"status\\\": \\\"error\\\",\\n  \\\"tool\\\": \\\"exec\\\",\\n  \\\"error\\\": \\\"Tool call blocked because before_tool_call hook failed\\\"\\n}\"], ours [\"Blocked: the guard gate could not judge.\"]",
];
