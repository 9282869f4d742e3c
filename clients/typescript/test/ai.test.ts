/** The tools with the real SDK and its scripted model, against a live server. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { generateText, stepCountIs } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { connect } from "../src/index.ts";
import { memoryTools } from "../src/ai.ts";

const client = connect({
  baseUrl: process.env["MEMORY_ACTORS_URL"] ?? "",
  key: process.env["MEMORY_ACTORS_KEY"] ?? "",
});

test("a model remembers in one conversation and recalls in another", async () => {
  const asks = async (toolName: string, input: object) => {
    const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
    let step = 0;
    const model = new MockLanguageModelV3({
      doGenerate: async () =>
        ((step += 1) === 1
          ? {
              content: [{ type: "tool-call", toolCallId: "t", toolName, input: JSON.stringify(input) }],
              finishReason: { unified: "tool-calls" }, usage, warnings: [],
            }
          : {
              content: [{ type: "text", text: "Done." }],
              finishReason: { unified: "stop" }, usage, warnings: [],
            }) as never,
    });
    const tools = memoryTools(client, "of the AI SDK");
    await generateText({ model, tools, prompt: "Go.", stopWhen: stepCountIs(2) });
    return JSON.stringify(model.doGenerateCalls.at(-1)?.prompt.at(-1));
  };
  assert.match(await asks("remember", { fact: "User skis in Davos." }), /remembered/);
  assert.match(await asks("recall", { question: "Where does the user ski?" }), /User skis in Davos/);
  assert.equal(await client.user("of the AI SDK").count(), 1);
});
