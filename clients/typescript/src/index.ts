/** Client of a Memory Actors server. Types come from its OpenAPI document: see `schema.ts`. */

import createClient, { type Client } from "openapi-fetch";
import { events, type LogEvent } from "./events.ts";
import { retrying } from "./retrying.ts";
import type { components, operations, paths } from "./schema.ts";

export type { LogEvent } from "./events.ts";
export type { paths } from "./schema.ts";
export type Schemas = components["schemas"];
export type Problem = Schemas["Problem"];

type Body<Name extends keyof operations> = operations[Name] extends {
  requestBody?: { content: { "application/json": infer Given } };
}
  ? NonNullable<Given>
  : never;
type Query<Name extends keyof operations> = operations[Name] extends {
  parameters: { query?: infer Given };
}
  ? NonNullable<Given>
  : never;

export interface Options {
  /** Where the server is, as `http://127.0.0.1:8765`. */
  baseUrl: string;
  /** An API key: `ma_…` of `memory-actors keys create`. */
  key: string;
  /** How often a request is sent again, where that is safe. 3 unless said. */
  retries?: number;
  /** For one attempt, in milliseconds. 30,000 unless said. */
  timeoutMs?: number;
  /** In place of the global `fetch`. */
  fetch?: typeof fetch;
}

/** Who asks: agent and session are written with each event, for audits. */
export interface On {
  agentId?: string;
  sessionId?: string;
  /** Of a root key: the subject whose grants count, as "person:ada". */
  speaksFor?: string;
  /** Other scopes that `retrieve` and `context` ask. */
  reads?: string[];
}

/** A refusal or a failure, in the server's words. */
export class MemoryActorsError extends Error {
  readonly status: number;
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.detail);
    this.name = "MemoryActorsError";
    this.status = problem.status;
    this.problem = problem;
  }

  /** The last part of the problem's type, as `not-found` or `quota-exceeded`. */
  get kind(): string {
    return this.problem.type.split(":").at(-1) ?? "";
  }
}

type Answered<Data> = { data?: Data; error?: unknown; response: Response };

/** Return what was answered, or throw why not. */
async function told<Data>(answer: Promise<Answered<Data>>): Promise<Data> {
  const { data, error, response } = await answer;
  if (response.ok) return data as Data;
  const problem = error as Partial<Problem> | undefined;
  throw new MemoryActorsError({
    type: "about:blank",
    title: response.statusText,
    detail: `the server answered ${response.status}, and not as one of Memory Actors does`,
    instance: "",
    ...problem,
    status: response.status,
  } as Problem);
}

/** The memories of all users on a server. */
export class MemoryActors {
  /** Every route, typed, for what has no method here. */
  readonly http: Client<paths>;
  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
    this.http = createClient<paths>({
      baseUrl: options.baseUrl.replace(/\/+$/, ""),
      headers: { Authorization: `Bearer ${options.key}` },
      fetch: retrying(options.fetch ?? fetch, options.retries ?? 3, options.timeoutMs ?? 30_000),
      querySerializer: { array: { style: "form", explode: true } },
    });
  }

  /** Return a handle on one user's memory, for one agent and session. Nothing is sent. */
  user(userId: string, on: On = {}): UserMemory {
    return new UserMemory(this.http, this.#options, userId, on);
  }

  /** Return a page of the ids of users, and how many there are. Needs a root key. */
  users(query: Query<"list_users"> = {}): Promise<Schemas["Users"]> {
    return told(this.http.GET("/admin/users", { params: { query } }));
  }

  /** Remove all that is kept of a user, to the last byte. Needs a root key. */
  erase(userId: string): Promise<Schemas["EraseReceipt"]> {
    return told(
      this.http.DELETE("/admin/users/{user_id}", { params: { path: { user_id: userId } } }),
    );
  }

  /** Yield the events of all users behind a position, and each as it comes. Needs a root key. */
  events(from: EventsFrom = {}): AsyncGenerator<LogEvent> {
    return events(this.#options, "/admin/events", from);
  }
}

export interface EventsFrom {
  /** A position of the log: what comes behind it. 0, the beginning, unless said. */
  after?: number;
  /** False: end with what is there. */
  follow?: boolean;
  signal?: AbortSignal;
}

/** One user's memory, as one agent and session see it. */
export class UserMemory {
  readonly userId: string;
  readonly #http: Client<paths>;
  readonly #options: Options;
  readonly #on: { path: { user_id: string }; header: Record<string, string> };

  constructor(http: Client<paths>, options: Options, userId: string, on: On) {
    this.#http = http;
    this.#options = options;
    this.userId = userId;
    const header: Record<string, string> = {};
    if (on.agentId !== undefined) header["Agent-Id"] = encodeURIComponent(on.agentId);
    if (on.sessionId !== undefined) header["Session-Id"] = encodeURIComponent(on.sessionId);
    if (on.speaksFor !== undefined) header["Speaks-For"] = encodeURIComponent(on.speaksFor);
    if (on.reads !== undefined) header["Reads"] = on.reads.map(encodeURIComponent).join(", ");
    this.#on = { path: { user_id: userId }, header };
  }

  /** Add one memory. A fact gets an idempotency key, so that sending it again adds it once. */
  add(content: string, more: Omit<Body<"add_memory">, "content"> = {}): Promise<Schemas["Receipt"]> {
    const isFact = (more.memory_type ?? "long_term") === "long_term";
    const key = isFact ? { idempotency_key: crypto.randomUUID() } : {};
    const body = { ...key, ...more, content };
    return told(this.#http.POST("/v1/users/{user_id}/memories", { params: this.#on, body }));
  }

  /** Add up to 1,000 facts at once, all or none. */
  async addMany(
    items: Schemas["MemoryItem"][],
    more: Omit<Body<"add_memories">, "items"> = {},
  ): Promise<Schemas["Receipt"][]> {
    const body = { idempotency_key: crypto.randomUUID(), ...more, items };
    const added = this.#http.POST("/v1/users/{user_id}/memories/bulk", { params: this.#on, body });
    return (await told(added)).receipts;
  }

  /** Return the memories that best answer a query, the best first. */
  async retrieve(
    query: string,
    more: Omit<Body<"search_memories">, "query"> = {},
  ): Promise<Schemas["Hit"][]> {
    const body = { ...more, query };
    const found = this.#http.POST("/v1/users/{user_id}/memories/search", { params: this.#on, body });
    return (await told(found)).hits;
  }

  /** Return a page of memories, newest first, and how many match. */
  list(query: Query<"list_memories"> = {}): Promise<Schemas["Memories"]> {
    return told(this.#http.GET("/v1/users/{user_id}/memories", { params: { ...this.#on, query } }));
  }

  async count(query: Query<"count_memories"> = {}): Promise<number> {
    const counted = this.#http.GET("/v1/users/{user_id}/count", { params: { ...this.#on, query } });
    return (await told(counted)).count;
  }

  get(memoryId: string): Promise<Schemas["Memory"]> {
    return told(
      this.#http.GET("/v1/users/{user_id}/memories/{memory_id}", { params: this.#one(memoryId) }),
    );
  }

  update(memoryId: string, body: Body<"update_memory">): Promise<Schemas["Receipt"]> {
    const params = this.#one(memoryId);
    return told(this.#http.PATCH("/v1/users/{user_id}/memories/{memory_id}", { params, body }));
  }

  delete(memoryId: string): Promise<Schemas["Receipt"]> {
    return told(
      this.#http.DELETE("/v1/users/{user_id}/memories/{memory_id}", { params: this.#one(memoryId) }),
    );
  }

  /** Return every event that touched a memory, also of one that is deleted. */
  async history(memoryId: string): Promise<Schemas["HistoryEntry"][]> {
    const path = "/v1/users/{user_id}/memories/{memory_id}/history";
    return (await told(this.#http.GET(path, { params: this.#one(memoryId) }))).entries;
  }

  /** Return why a memory is there, or no longer is. */
  why(memoryId: string): Promise<Schemas["Why"]> {
    const path = "/v1/users/{user_id}/memories/{memory_id}/why";
    return told(this.#http.GET(path, { params: this.#one(memoryId) }));
  }

  /** Return the memories that wait for a review, newest first. */
  async pending(query: Query<"list_pending_memories"> = {}): Promise<Schemas["Memory"][]> {
    const path = "/v1/users/{user_id}/pending";
    return (await told(this.#http.GET(path, { params: { ...this.#on, query } }))).memories;
  }

  /** Add pending memories, one by one. */
  async approve(memoryIds: string[]): Promise<Schemas["Receipt"][]> {
    const body = { memory_ids: memoryIds };
    const path = "/v1/users/{user_id}/pending/approve";
    return (await told(this.#http.POST(path, { params: this.#on, body }))).receipts;
  }

  /** Reject pending memories, all or none: what they say is refused from now on. */
  async reject(memoryIds: string[]): Promise<Schemas["Receipt"][]> {
    const body = { memory_ids: memoryIds };
    const path = "/v1/users/{user_id}/pending/reject";
    return (await told(this.#http.POST(path, { params: this.#on, body }))).receipts;
  }

  usage(): Promise<Schemas["Usage"]> {
    return told(this.#http.GET("/v1/users/{user_id}/usage", { params: this.#on }));
  }

  /** Return the right of each subject, by subject. */
  async grants(): Promise<Schemas["Grants"]["grants"]> {
    return (await told(this.#http.GET("/v1/users/{user_id}/grants", { params: this.#on }))).grants;
  }

  /** Give a person, an agent or a key a right; return the right of each subject. */
  async grant(
    subject: string,
    right: Body<"grant_right">["right"] = "read",
  ): Promise<Schemas["Grants"]["grants"]> {
    const body = { subject, right };
    const granted = this.#http.POST("/v1/users/{user_id}/grants", { params: this.#on, body });
    return (await told(granted)).grants;
  }

  /** Take the right of a subject; return the right of each other one. */
  async revoke(subject: string): Promise<Schemas["Grants"]["grants"]> {
    const body = { subject };
    const revoked = this.#http.POST("/v1/users/{user_id}/revoke", { params: this.#on, body });
    return (await told(revoked)).grants;
  }

  /** Return what to paste into a prompt. */
  context(query: string, more: Omit<Body<"build_context">, "query"> = {}): Promise<Schemas["Context"]> {
    const body = { ...more, query };
    return told(this.#http.POST("/v1/users/{user_id}/context", { params: this.#on, body }));
  }

  /** Yield this user's events behind a position, and each as it comes; a cut loses none. */
  events(from: EventsFrom = {}): AsyncGenerator<LogEvent> {
    const path = `/v1/users/${encodeURIComponent(this.userId)}/events`;
    return events(this.#options, path, from);
  }

  #one(memoryId: string) {
    return { ...this.#on, path: { ...this.#on.path, memory_id: memoryId } };
  }
}

/** Return the memories on a server. Nothing is sent. */
export function connect(options: Options): MemoryActors {
  return new MemoryActors(options);
}
