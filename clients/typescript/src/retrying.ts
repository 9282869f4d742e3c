/** Requests that are sent again, where nothing can be done twice by that. */

const PAUSES_MS = [100, 300, 1000];
const RETRY_AFTER_MS_MAX = 5000;
const COME_AGAIN = new Set([502, 503, 504]);
const READS = /\/(search|context)$/;

export const pause = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

/** Say whether a request, sent twice, does no more than sent once. */
async function isRepeatable(request: Request): Promise<boolean> {
  if (request.method === "GET" || READS.test(new URL(request.url).pathname)) return true;
  if (request.method !== "POST") return false;
  const body: unknown = await request.clone().json().catch(() => null);
  return typeof body === "object" && body !== null && "idempotency_key" in body;
}

function retryAfterMs(answer: Response): number {
  const said = Number(answer.headers.get("Retry-After")) * 1000;
  return Number.isFinite(said) ? Math.min(Math.max(said, 0), RETRY_AFTER_MS_MAX) : 0;
}

/** Return a `fetch` with a deadline for each attempt, that tries again. */
export function retrying(send: typeof fetch, retries: number, timeoutMs: number) {
  return async (request: Request): Promise<Response> => {
    const repeatable = await isRepeatable(request);
    for (let attempt = 0; ; attempt += 1) {
      const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeoutMs)]);
      let waitMs = PAUSES_MS[Math.min(attempt, PAUSES_MS.length - 1)] ?? 0;
      try {
        const answer = await send(new Request(request.clone(), { signal }));
        if (!COME_AGAIN.has(answer.status) || !repeatable || attempt >= retries) return answer;
        waitMs = Math.max(waitMs, retryAfterMs(answer));
      } catch (error) {
        if (!repeatable || attempt >= retries || request.signal.aborted) throw error;
      }
      await pause(waitMs * (0.5 + Math.random())); // not all clients at once
    }
  };
}
