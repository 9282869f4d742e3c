// The page's requests to the server: operations by name. The browser keeps the key for this tab, so
// that a reload does not ask for it again.

const KEPT = "key";
let key = null;

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || String(status));
    this.status = status;
  }
}

export function useKey(given) {
  key = given;
  if (given) sessionStorage.setItem(KEPT, given);
  else sessionStorage.removeItem(KEPT);
}

export const keptKey = () => sessionStorage.getItem(KEPT);

async function ask(path, body) {
  const headers = { Authorization: `Bearer ${key}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(new URL(path, import.meta.url), {
    method: body === undefined ? "GET" : "POST",
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
  });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, told);
  return told;
}

/** Return the rights of the key: {scope, user_id, version}. */
export const ownKey = () => ask("key");

/** Carry out an operation. `on` says of whom and when: {user_id, document, as_of, first, last}. */
export async function call(operation, on = {}, args = {}) {
  const given = (object) =>
    Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined && value !== ""));
  const body = { operation, ...given(on), arguments: given(args) };
  return (await ask("call", body)).result;
}
