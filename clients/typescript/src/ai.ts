/** Tools of the Vercel AI SDK (package `ai`, 5 or newer): `generateText({ tools: memoryTools(client, "user_123"), … })`. */

import { jsonSchema, tool } from "ai";
import type { MemoryActors, On } from "./index.ts";

const text = (name: string, description: string) => ({
  type: "object" as const,
  properties: { [name]: { type: "string" as const, description } },
  required: [name],
  additionalProperties: false,
});

/** Return tools with which a model remembers and recalls, for one user. */
export function memoryTools(client: MemoryActors, userId: string, on: On = {}) {
  const user = client.user(userId, on);
  return {
    remember: tool({
      description: "Remember a fact about the user for later conversations: one short sentence.",
      inputSchema: jsonSchema<{ fact: string }>(text("fact", "The fact, with names and dates.")),
      execute: async ({ fact }) => ({ remembered: (await user.add(fact)).memory_id }),
    }),
    recall: tool({
      description: "Find what is remembered about the user. Ask it before you answer about them.",
      inputSchema: jsonSchema<{ question: string }>(text("question", "What you want to know.")),
      execute: async ({ question }) =>
        (await user.retrieve(question, { top_k: 5 })).map(({ memory_id, content, occurred_at }) => ({
          memory_id,
          content,
          occurred_at,
        })),
    }),
  };
}
