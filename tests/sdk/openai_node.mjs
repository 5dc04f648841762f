// OpenAI's package for Node: chat completions and Responses, before providers of every wire format.

import assert from "node:assert/strict";
import { API, CLIENT_KEY, FORECAST, LINES, PATIENCE, SCHEMA, STORY, after, load, raised, tell, walksOnce } from "./stage.mjs";

const { default: OpenAI } = await load("openai");
const ASK = [{ role: "user", content: "ready?" }];
const TOOLS = [{ type: "function", function: { name: "weather", parameters: SCHEMA } }];
const FLAT_TOOLS = [{ type: "function", name: "weather", parameters: SCHEMA, strict: false }];

/** A client as everyone makes it: its own retries are on unless `options` say otherwise. */
const client = (options) => new OpenAI({ baseURL: API, apiKey: CLIENT_KEY, timeout: PATIENCE, ...options });
const chat = (wish, options) => client().chat.completions.create({ messages: ASK, ...wish }, options);
const text = (chunk) => chunk.choices[0]?.delta.content ?? "";

async function all(chunks) {
  const read = [];
  for await (const chunk of chunks) read.push(chunk);
  return read;
}

async function modelsAreListed() {
  const names = (await all(await client().models.list())).map((model) => model.id);
  for (const name of ["chat", "gemini-torn", "messages-good/m"]) assert(names.includes(name), name);
}

async function aChatIsAnswered(upstream) {
  const { data, response } = await chat({ model: upstream }).withResponse();
  assert.equal(data.choices[0].message.content, LINES);
  assert.equal(data.usage.total_tokens, 10);
  assert.equal(response.headers.get("x-understudy-served-by"), `${upstream}-good/m`);
}

async function aStreamEndsWithTheUsageThatWasAskedFor(upstream) {
  const chunks = await all(await chat({ model: upstream, stream: true, stream_options: { include_usage: true } }));
  assert.equal(chunks.map(text).join(""), LINES);
  assert.equal(chunks.at(-1).usage.total_tokens, 10);
}

async function aToolIsCalledAndItsResultIsAnswered(upstream) {
  for (const streams of [false, true]) {
    const answered = async (messages) => {
      const wish = { model: `${upstream}-tools`, messages, tools: TOOLS };
      if (!streams) return (await chat(wish)).choices[0];
      return (await client().chat.completions.stream(wish).finalChatCompletion()).choices[0];
    };
    const asked = await answered(ASK);
    assert.equal(asked.finish_reason, "tool_calls");
    const [call] = asked.message.tool_calls;
    assert.deepEqual([call.function.name, call.function.arguments], ["weather", '{"city":"Oslo"}']);
    const said = await answered([...ASK, asked.message, { role: "tool", tool_call_id: call.id, content: "rain" }]);
    assert.equal(said.message.content, FORECAST);
  }
}

async function parallelToolCallsAreStreamed(upstream) {
  const stream = client().chat.completions.stream({ model: `${upstream}-parallel`, messages: ASK, tools: TOOLS });
  const calls = (await stream.finalChatCompletion()).choices[0].message.tool_calls;
  assert.deepEqual(calls.map((call) => call.function.arguments), ['{"city":"Oslo"}', '{"city":"Rome"}']);
  assert.equal(new Set(calls.map((call) => call.id)).size, 2);
}

async function theSecondAnswersForALeadThatIsOverloaded(upstream) {
  const { data, response } = await chat({ model: `${upstream}-rescued` }).withResponse();
  assert.equal(response.headers.get("x-understudy-served-by"), `${after(upstream)}-good/m`);
  assert.equal(data.choices[0].message.content, LINES);
  const chunks = await all(await chat({ model: `${upstream}-rescued`, stream: true }));
  assert.equal(chunks.map(text).join(""), LINES);
}

async function aStreamThatIsCutIsGoneOnWith(upstream) {
  for (const chain of ["torn", "torn-across"]) {
    const chunks = await all(await chat({ model: `${upstream}-${chain}`, stream: true }));
    assert.equal(chunks.map(text).join(""), STORY, chain);
    assert.equal(chunks.findLast((chunk) => chunk.choices.length > 0).choices[0].finish_reason, "stop");
  }
}

async function aCutRaisesAnApiErrorWithOurCodeWhereThatIsWanted() {
  const headers = { "x-understudy-agent": "plain" };
  const read = async () => all(await chat({ model: "chat-torn", stream: true }, { headers }));
  const error = await raised(OpenAI.APIError, read);
  assert.deepEqual([error.code, error.error.reason], ["upstream_timeout", "timeout"]);
}

async function exhaustionRaisesOnceAfterOneWalk(upstream) {
  const ask = (model) => raised(OpenAI.InternalServerError, () => chat({ model }));
  const error = await walksOnce(upstream, ask);
  assert.deepEqual([error.status, error.error.reason], [503, "overloaded"]);
  assert.equal(error.headers.get("x-should-retry"), "false");
}

async function aBadRequestSaysWhatTheProviderSaid(upstream) {
  const error = await raised(OpenAI.BadRequestError, () => chat({ model: `${upstream}-refused` }));
  assert.match(error.message, /at most 2/);
}

async function aRateLimitEverywhereRaisesWithATimeToComeBack() {
  const error = await raised(OpenAI.RateLimitError, () => chat({ model: "rate-limited" }));
  assert.equal(error.code, "rate_limit_exceeded");
  assert(Number(error.headers.get("retry-after")) >= 1);
}

async function aWrongKeyRaisesAnAuthenticationError() {
  const wrong = client({ apiKey: "wrong" });
  const error = await raised(OpenAI.AuthenticationError, async () => wrong.models.list());
  assert.equal(error.code, "invalid_api_key");
}

async function anUnknownModelRaisesNotFound() {
  const error = await raised(OpenAI.NotFoundError, () => chat({ model: "nobody" }));
  assert.equal(error.code, "model_not_found");
}

async function aResponseIsCreatedAndStreamed(upstream) {
  const response = await client().responses.create({ model: upstream, input: "ready?" });
  assert.deepEqual([response.status, response.output_text], ["completed", LINES]);
  assert.equal(response.usage.total_tokens, 10);
  const final = await client().responses.stream({ model: upstream, input: "ready?" }).finalResponse();
  assert.deepEqual([final.status, final.output_text], ["completed", LINES]);
}

async function aResponseGoesOnFromTheOneBefore(upstream) {
  const { responses } = client();
  const first = await responses.create({ model: upstream, input: "ready?" });
  const again = await responses.create({ model: upstream, input: "sure?", previous_response_id: first.id });
  // a provider that speaks Responses itself is sent the whole conversation: its own words do not name the one before
  const named = upstream === "responses" ? undefined : first.id;
  assert.deepEqual([again.output_text, again.previous_response_id], [LINES, named]);
  const lost = { model: upstream, input: "x", previous_response_id: "resp_that_never_was" };
  const error = await raised(OpenAI.BadRequestError, () => responses.create(lost));
  assert.equal(error.code, "previous_response_not_found");
}

async function aResponseCallsAToolAndItsResultIsAnswered(upstream) {
  for (const streams of [false, true]) {
    const answered = async (wish) => {
      const whole = { model: `${upstream}-tools`, tools: FLAT_TOOLS, ...wish };
      return streams ? client().responses.stream(whole).finalResponse() : client().responses.create(whole);
    };
    const asked = await answered({ input: "ready?" });
    const [call] = asked.output.filter((item) => item.type === "function_call");
    assert.deepEqual([call.name, call.arguments], ["weather", '{"city":"Oslo"}']);
    const result = { type: "function_call_output", call_id: call.call_id, output: "rain" };
    const said = await answered({ input: [result], previous_response_id: asked.id });
    assert.equal(said.output_text, FORECAST);
  }
}

async function aResponseThatIsCutIsGoneOnWith(upstream) {
  for (const chain of ["torn", "torn-across"]) {
    const stream = client().responses.stream({ model: `${upstream}-${chain}`, input: "ready?" });
    assert.equal((await stream.finalResponse()).output_text, STORY, chain);
  }
}

async function anExhaustedResponseRaisesOnceAfterOneWalk(upstream) {
  const create = (model) => client().responses.create({ model, input: "ready?" });
  const error = await walksOnce(upstream, (model) => raised(OpenAI.InternalServerError, () => create(model)));
  assert.deepEqual([error.status, error.error.reason], [503, "overloaded"]);
}

await tell("openai", [
  modelsAreListed,
  aChatIsAnswered,
  aStreamEndsWithTheUsageThatWasAskedFor,
  aToolIsCalledAndItsResultIsAnswered,
  parallelToolCallsAreStreamed,
  theSecondAnswersForALeadThatIsOverloaded,
  aStreamThatIsCutIsGoneOnWith,
  aCutRaisesAnApiErrorWithOurCodeWhereThatIsWanted,
  exhaustionRaisesOnceAfterOneWalk,
  aBadRequestSaysWhatTheProviderSaid,
  aRateLimitEverywhereRaisesWithATimeToComeBack,
  aWrongKeyRaisesAnAuthenticationError,
  anUnknownModelRaisesNotFound,
  aResponseIsCreatedAndStreamed,
  aResponseGoesOnFromTheOneBefore,
  aResponseCallsAToolAndItsResultIsAnswered,
  aResponseThatIsCutIsGoneOnWith,
  anExhaustedResponseRaisesOnceAfterOneWalk,
]);
