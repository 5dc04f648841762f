// Vercel's AI SDK with its providers for OpenAI (Responses, chat completions), OpenAI-compatible servers and Anthropic, before
// providers of every wire format.

import assert from "node:assert/strict";
import { API, CLIENT_KEY, FORECAST, LINES, SCHEMA, STORY, load, raised, tell, turns, walksOnce } from "./stage.mjs";

// it warns of each model that it does not know, and it knows none of these
globalThis.AI_SDK_LOG_WARNINGS = false;
const { APICallError, RetryError, generateText, jsonSchema, stepCountIs, streamText, tool } = await load("ai");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { createAnthropic } = await load("@ai-sdk/anthropic");

const address = { baseURL: API, apiKey: CLIENT_KEY };
const openai = createOpenAI(address);
// each way to a model, by the endpoint that it asks
const WAYS = {
  responses: (name) => openai.responses(name),
  chat: (name) => openai.chat(name),
  compatible: createOpenAICompatible({ ...address, name: "understudy", includeUsage: true }),
  messages: createAnthropic(address),
};
const weather = tool({ description: "Tells the weather.", inputSchema: jsonSchema(SCHEMA), execute: () => "rain" });

// This SDK does not heed `x-should-retry`: it asks again after any 5xx by itself. Without retries of its own the gateway's
// one walk is the only one; the fact about its retries says how many there are with them.
const generated = (model, own) => generateText({ model, prompt: "ready?", maxRetries: 0, ...own });

async function streamed(model, own) {
  const failures = [];
  const onError = ({ error }) => failures.push(error);
  const result = streamText({ model, prompt: "ready?", maxRetries: 0, onError, ...own });
  let text = "";
  for await (const piece of result.textStream) text += piece;
  if (failures.length > 0) throw failures[0];
  return { text, finishReason: await result.finishReason, usage: await result.totalUsage };
}

/** Does it for each way, and says for which it failed. */
async function eachWay(does) {
  for (const [way, model] of Object.entries(WAYS)) {
    try {
      await does(model, way);
    } catch (error) {
      error.message = `by ${way}: ${error.message}`;
      throw error;
    }
  }
}

async function aTextIsGenerated(upstream) {
  await eachWay(async (model) => {
    const { text, finishReason, usage } = await generated(model(upstream));
    assert.deepEqual([text, finishReason], [LINES, "stop"]);
    assert.deepEqual([usage.inputTokens, usage.outputTokens], [7, 3]);
  });
}

async function aTextIsStreamed(upstream) {
  await eachWay(async (model) => {
    const { text, finishReason, usage } = await streamed(model(upstream));
    assert.deepEqual([text, finishReason], [LINES, "stop"]);
    assert.deepEqual([usage.inputTokens, usage.outputTokens], [7, 3]);
  });
}

async function aToolIsCalledAndItsResultIsAnswered(upstream) {
  const own = { tools: { weather }, stopWhen: stepCountIs(3) };
  await eachWay(async (model) => {
    const { text, steps } = await generated(model(`${upstream}-tools`), own);
    assert.deepEqual(steps[0].toolCalls.map((call) => call.input), [{ city: "Oslo" }]);
    assert.equal(text, FORECAST);
    // the text of both steps
    assert.equal((await streamed(model(`${upstream}-tools`), own)).text, `Let me look.${FORECAST}`);
  });
}

async function theSecondAnswersForALeadThatIsOverloaded(upstream) {
  await eachWay(async (model) => {
    assert.equal((await generated(model(`${upstream}-rescued`))).text, LINES);
    assert.equal((await streamed(model(`${upstream}-rescued`))).text, LINES);
  });
}

async function aStreamThatIsCutIsGoneOnWith(upstream) {
  await eachWay(async (model) => {
    for (const chain of ["torn", "torn-across"]) {
      const { text, finishReason } = await streamed(model(`${upstream}-${chain}`));
      assert.deepEqual([text, finishReason], [STORY, "stop"], chain);
    }
  });
}

async function exhaustionRaisesAfterOneWalk(upstream) {
  await eachWay(async (model) => {
    const error = await walksOnce(upstream, (name) => raised(APICallError, () => generated(model(name))));
    assert.equal(error.statusCode, 503);
    assert.match(error.responseBody, /overloaded/);
  });
}

async function itsOwnRetriesWalkTheChainAgain() {
  const before = await turns();
  const error = await raised(RetryError, () => generated(openai.chat("chat-exhausted"), { maxRetries: 1 }));
  assert.equal(error.errors.length, 2);
  assert.equal((await turns()) - before, 2);
}

async function aBadRequestSaysWhatTheProviderSaid(upstream) {
  await eachWay(async (model) => {
    const error = await raised(APICallError, () => generated(model(`${upstream}-refused`)));
    assert.equal(error.statusCode, 400);
    assert.match(error.message, /at most 2/);
  });
}

async function aResponseGoesOnFromTheOneBefore(upstream) {
  const { text, providerMetadata } = await generated(openai.responses(upstream));
  const previousResponseId = providerMetadata.openai.responseId;
  assert.equal(text, LINES);
  const own = { prompt: "sure?", providerOptions: { openai: { previousResponseId } } };
  assert.equal((await generated(openai.responses(upstream), own)).text, LINES);
}

await tell("ai", [
  aTextIsGenerated,
  aTextIsStreamed,
  aToolIsCalledAndItsResultIsAnswered,
  theSecondAnswersForALeadThatIsOverloaded,
  aStreamThatIsCutIsGoneOnWith,
  exhaustionRaisesAfterOneWalk,
  itsOwnRetriesWalkTheChainAgain,
  aBadRequestSaysWhatTheProviderSaid,
  aResponseGoesOnFromTheOneBefore,
]);
