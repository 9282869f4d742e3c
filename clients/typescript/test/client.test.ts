/** The client against a live server, whose address and keys are in the environment. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, MemoryActorsError, type LogEvent } from "../src/index.ts";

const env = (name: string): string => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
};
const baseUrl = env("MEMORY_ACTORS_URL");
const memory = connect({ baseUrl, key: env("MEMORY_ACTORS_KEY") });
let users = 0;
const somebody = () => memory.user(`user ${(users += 1)}/ä`, { agentId: "ä gent", sessionId: "s1" });

test("a memory is added, found, read, changed and deleted", async () => {
  const user = somebody();
  const receipt = await user.add("likes tea", { metadata: { of: "drinks" } });
  const [hit] = await user.retrieve("what does she drink?", { top_k: 1, explain: true });
  assert.equal(hit?.memory_id, receipt.memory_id);
  assert.ok(hit && hit.score > 0 && hit.signals);
  await user.update(receipt.memory_id, { content: "likes coffee" });
  assert.equal((await user.get(receipt.memory_id)).content, "likes coffee");
  assert.deepEqual((await user.get(receipt.memory_id)).metadata, { of: "drinks" });
  const history = await user.history(receipt.memory_id);
  assert.deepEqual(history.map((entry) => entry.event), ["long_term.added", "long_term.updated"]);
  assert.equal(history[0]?.cause["agent_id"], "ä gent");
  assert.equal((await user.why(receipt.memory_id)).alive, true);
  await user.delete(receipt.memory_id);
  assert.equal(await user.count(), 0);
});

test("many are added at once and listed in pages with their total", async () => {
  const user = somebody();
  const items = Array.from({ length: 7 }, (_, number) => ({ content: `fact ${number}` }));
  assert.equal((await user.addMany(items)).length, 7);
  const page = await user.list({ limit: 3, memory_type: ["long_term"] });
  assert.equal(page.memories.length, 3);
  assert.equal(page.total, 7);
  const context = await user.context("fact", { limit: 2 });
  assert.ok(context.parts.length > 0);
  assert.equal((await user.usage()).tier, "local");
});

test("a refusal says why, in the server's words", async () => {
  const user = somebody();
  await assert.rejects(user.get("nothing"), (error) => {
    assert.ok(error instanceof MemoryActorsError);
    assert.equal(error.status, 404);
    assert.equal(error.kind, "not-found");
    assert.match(error.message, /nothing/);
    return true;
  });
  const stranger = connect({ baseUrl, key: "ma_wrong" }).user("x");
  await assert.rejects(stranger.usage(), { status: 401 });
});

test("what is sent again is added once", async () => {
  let sent = 0;
  const losing: typeof fetch = async (...given) => {
    const answer = await fetch(...given);
    sent += 1;
    if (sent === 1) throw new TypeError("the answer was lost");
    return answer;
  };
  const user = connect({ baseUrl, key: env("MEMORY_ACTORS_KEY"), fetch: losing }).user("retried");
  await user.add("said once", { on_duplicate: "keep" });
  assert.equal(sent, 2);
  assert.equal(await user.count(), 1);
});

test("what could be done twice is not sent again", async () => {
  let sent = 0;
  const failing: typeof fetch = () => {
    sent += 1;
    return Promise.reject(new TypeError("no network"));
  };
  const user = connect({ baseUrl, key: "ma_x", fetch: failing }).user("never");
  await assert.rejects(user.delete("x"), TypeError);
  assert.equal(sent, 1);
});

test("a server that is busy is asked again, and a stuck one is not waited for", async () => {
  let asked = 0;
  const busy: typeof fetch = (...given) =>
    (asked += 1) < 3 ? Promise.resolve(new Response(null, { status: 503 })) : fetch(...given);
  const key = env("MEMORY_ACTORS_KEY");
  assert.equal(await connect({ baseUrl, key, fetch: busy }).user("busy").count(), 0);
  assert.equal(asked, 3);
  const stuck: typeof fetch = (given) =>
    new Promise((_, fail) => {
      const { signal } = given as Request;
      signal.addEventListener("abort", () => fail(signal.reason as Error));
    });
  const waiting = connect({ baseUrl, key, fetch: stuck, timeoutMs: 50, retries: 0 }).user("stuck");
  await assert.rejects(waiting.usage(), { name: "TimeoutError" });
});

test("events are streamed, and a cut loses none", async () => {
  const user = somebody();
  await user.add("first");
  await user.add("second");
  const seen: string[] = [];
  const text = (event: LogEvent) => String(event.data["content"]);
  for await (const event of user.events({ follow: false })) seen.push(text(event));
  assert.deepEqual(seen, ["first", "second"]);

  let cuts = 0;
  const cutting: typeof fetch = async (...given) => {
    const answer = await fetch(...given);
    if ((cuts += 1) > 1 || answer.body === null) return answer;
    const [first] = answer.body.tee();
    const reader = first.getReader();
    const { value } = await reader.read(); // the first chunk, and then the line is cut
    return new Response(value ?? null, { headers: answer.headers });
  };
  const key = env("MEMORY_ACTORS_KEY");
  const stop = new AbortController();
  const again: string[] = [];
  setTimeout(() => void user.add("third"), 1500);
  const cut = connect({ baseUrl, key, fetch: cutting }).user(user.userId);
  for await (const event of cut.events({ signal: stop.signal })) {
    again.push(text(event));
    if (again.length === 3) break;
  }
  stop.abort();
  assert.deepEqual(again, ["first", "second", "third"]);
  assert.ok(cuts > 1);
});

test("users are listed and erased by a root key", async () => {
  await memory.user("to be erased").add("secret");
  assert.ok((await memory.users({ limit: 1000 })).users.includes("to be erased"));
  assert.ok((await memory.erase("to be erased")).events > 0);
  assert.ok(!(await memory.users()).users.includes("to be erased"));
  for await (const event of memory.events({ follow: false })) assert.ok(event.position > 0);
});

test("every route can be asked for by its path", async () => {
  const { data } = await memory.http.GET("/health");
  assert.equal(data?.status, "ok");
});
