// Anthropic's package for Node, before providers of every wire format.

import assert from "node:assert/strict";
import { API, CLIENT_KEY, FORECAST, LINES, PATIENCE, SCHEMA, STORY, after, load, raised, tell, walksOnce } from "./stage.mjs";

const { default: Anthropic } = await load("@anthropic-ai/sdk");
const ASK = [{ role: "user", content: "ready?" }];
const TOOLS = [{ name: "weather", description: "Tells the weather.", input_schema: SCHEMA }];
// this package adds the version to the address by itself
const ADDRESS = API.replace(/\/v1$/, "");

const client = (options) => new Anthropic({ baseURL: ADDRESS, apiKey: CLIENT_KEY, timeout: PATIENCE, ...options });
const wish = (own) => ({ messages: ASK, max_tokens: 64, ...own });
const ask = (own, options) => client().messages.create(wish(own), options);
const streamed = (own, options) => client().messages.stream(wish(own), options).finalMessage();
const said = (message) => message.content.map((block) => block.text ?? "").join("");
const calls = (message) => message.content.filter((block) => block.type === "tool_use");

async function modelsAreListed() {
  const names = [];
  for await (const model of client().models.list({ limit: 1000 })) names.push(model.id);
  for (const name of ["messages", "gemini-torn", "chat-good/m"]) assert(names.includes(name), name);
}

async function aMessageIsAnswered(upstream) {
  const { data, response } = await ask({ model: upstream }).withResponse();
  assert.deepEqual([said(data), data.stop_reason], [LINES, "end_turn"]);
  assert.deepEqual([data.usage.input_tokens, data.usage.output_tokens], [7, 3]);
  assert.equal(response.headers.get("x-understudy-served-by"), `${upstream}-good/m`);
}

async function aStreamIsPutTogether(upstream) {
  const message = await streamed({ model: upstream });
  assert.deepEqual([said(message), message.stop_reason], [LINES, "end_turn"]);
  assert.equal(message.usage.output_tokens, 3);
}

async function aToolIsCalledAndItsResultIsAnswered(upstream) {
  for (const answered of [ask, streamed]) {
    const own = { model: `${upstream}-tools`, tools: TOOLS };
    const asked = await answered({ ...own, messages: ASK });
    assert.equal(asked.stop_reason, "tool_use");
    const [call] = calls(asked);
    assert.deepEqual([call.name, call.input], ["weather", { city: "Oslo" }]);
    const result = { type: "tool_result", tool_use_id: call.id, content: "rain" };
    const turns = [...ASK, { role: "assistant", content: asked.content }, { role: "user", content: [result] }];
    assert.equal(said(await answered({ ...own, messages: turns })), FORECAST);
  }
}

async function parallelToolCallsAreStreamed(upstream) {
  const message = await streamed({ model: `${upstream}-parallel`, tools: TOOLS });
  assert.deepEqual(calls(message).map((call) => call.input), [{ city: "Oslo" }, { city: "Rome" }]);
}

async function theSecondAnswersForALeadThatIsOverloaded(upstream) {
  const { data, response } = await ask({ model: `${upstream}-rescued` }).withResponse();
  assert.equal(response.headers.get("x-understudy-served-by"), `${after(upstream)}-good/m`);
  assert.equal(said(data), LINES);
  assert.equal(said(await streamed({ model: `${upstream}-rescued` })), LINES);
}

async function aStreamThatIsCutIsGoneOnWith(upstream) {
  for (const chain of ["torn", "torn-across"]) {
    const message = await streamed({ model: `${upstream}-${chain}` });
    assert.deepEqual([said(message), message.stop_reason], [STORY, "end_turn"], chain);
  }
}

async function aCutRaisesAnApiErrorWhereThatIsWanted() {
  const headers = { "x-understudy-agent": "plain" };
  const error = await raised(Anthropic.APIError, () => streamed({ model: "messages-torn" }, { headers }));
  assert.equal(error.error.error.reason, "timeout");
}

async function exhaustionRaisesOnceAfterOneWalk(upstream) {
  const error = await walksOnce(upstream, (model) => raised(Anthropic.ServiceUnavailableError, () => ask({ model })));
  assert.deepEqual([error.status, error.error.error.type], [503, "overloaded_error"]);
  assert.equal(error.headers.get("x-should-retry"), "false");
}

async function aBadRequestSaysWhatTheProviderSaid(upstream) {
  const error = await raised(Anthropic.BadRequestError, () => ask({ model: `${upstream}-refused` }));
  assert.match(error.message, /at most 2/);
  assert.equal(error.error.error.type, "invalid_request_error");
}

async function aWrongKeyRaisesAnAuthenticationError() {
  const wrong = client({ apiKey: "wrong" });
  const error = await raised(Anthropic.AuthenticationError, () => wrong.messages.create(wish({ model: "messages" })));
  assert.equal(error.error.error.type, "authentication_error");
}

async function anUnknownModelRaisesNotFound() {
  const error = await raised(Anthropic.NotFoundError, () => ask({ model: "nobody" }));
  assert.equal(error.error.error.type, "not_found_error");
}

await tell("@anthropic-ai/sdk", [
  modelsAreListed,
  aMessageIsAnswered,
  aStreamIsPutTogether,
  aToolIsCalledAndItsResultIsAnswered,
  parallelToolCallsAreStreamed,
  theSecondAnswersForALeadThatIsOverloaded,
  aStreamThatIsCutIsGoneOnWith,
  aCutRaisesAnApiErrorWhereThatIsWanted,
  exhaustionRaisesOnceAfterOneWalk,
  aBadRequestSaysWhatTheProviderSaid,
  aWrongKeyRaisesAnAuthenticationError,
  anUnknownModelRaisesNotFound,
]);
