/** Server-sent events of the log: a stream that is taken up again where it was cut. */

import { MemoryActorsError, type EventsFrom, type Options, type Problem } from "./index.ts";
import { pause } from "./retrying.ts";
import type { components } from "./schema.ts";

export type LogEvent = components["schemas"]["LogEntry"];

const PAUSE_MS = 500;

/** Yield events behind a position; without `follow`, those that are there. */
export async function* events(
  options: Options,
  path: string,
  { after = 0, follow = true, signal }: EventsFrom,
): AsyncGenerator<LogEvent> {
  const send = options.fetch ?? fetch;
  const url = `${options.baseUrl.replace(/\/+$/, "")}${path}?follow=${follow}`;
  let last = after;
  for (;;) {
    try {
      const answer = await send(url, {
        headers: { Authorization: `Bearer ${options.key}`, "Last-Event-ID": String(last) },
        ...(signal ? { signal } : {}),
      });
      if (!answer.ok) throw new MemoryActorsError((await answer.json()) as Problem);
      for await (const data of messages(answer.body)) {
        const event = JSON.parse(data) as LogEvent;
        last = event.position;
        yield event;
      }
      if (!follow) return;
    } catch (error) {
      const refused = error instanceof MemoryActorsError && error.status < 500;
      if (refused || signal?.aborted || !follow) throw error;
    }
    await pause(PAUSE_MS);
  }
}

/** Yield the data of each message in a stream of server-sent events. */
async function* messages(body: ReadableStream<Uint8Array> | null): AsyncGenerator<string> {
  if (body === null) return;
  let left = "";
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    const parts = (left + decoder.decode(chunk, { stream: true })).split(/\r?\n\r?\n/);
    left = parts.pop() ?? "";
    for (const part of parts) {
      const data = part
        .split(/\r?\n/)
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5).trimStart());
      if (data.length) yield data.join("\n");
    }
  }
}
