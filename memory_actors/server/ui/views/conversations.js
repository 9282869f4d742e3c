// A session as people read it: who said what, and what became of each turn.

import { html, useMemo, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Details } from "../details.js";
import { Empty, Said, Select, Waiting, useLoaded, when } from "../parts.js";
import { T } from "../texts.js";

const LISTED = 1000; // of the newest memories: their sessions are offered
const TURNS = ["long_term", "short_term"];
const GONE = ["deleted", "pruned", "expired"];

/** The sessions of the newest memories, the last one first, and the summaries among these. */
async function sessionsOf(user) {
  const newest = await call("list_memories", { user_id: user }, { memory_types: TURNS, limit: LISTED });
  const summaries = newest.filter((memory) => memory.source === "compressed");
  const named = new Map();
  for (const memory of newest)
    for (const id of memory.data?.session_ids ?? [memory.session_id]) if (id && !named.has(id)) named.set(id, memory.occurred_at);
  return { summaries, named: [...named] };
}

/** The turns of a session in order, also those that are gone, each with its fate. */
async function turnsOf(user, session, summaries) {
  const on = { user_id: user };
  const [living, extractions, events] = await Promise.all([
    call("list_memories", on, { memory_types: TURNS, session_id: session, limit: LISTED }),
    call("extractions", on, { limit: 100 }),
    call("system.events", { ...on, last: LISTED }),
  ]);
  const turns = new Map();
  const fates = new Map();
  const say = (id, fate) => {
    const said = fates.get(id) ?? [];
    if (!said.some((one) => one.text === fate.text && one.to === fate.to)) fates.set(id, [...said, fate]);
  };
  const drawn = new Set(extractions.flatMap((one) => one.facts.filter((fact) => ["added", "pending"].includes(fact.came)).map((fact) => fact.memory_id)));
  for (const memory of living) turns.set(memory.memory_id, memory);
  for (const { memory_id: to } of summaries.filter((one) => one.data?.session_ids?.includes(session))) {
    for (const original of await call("expand", on, { compressed_id: to })) {
      if (original.session_id !== session) continue;
      turns.set(original.memory_id, { ...original, isGone: true });
      say(original.memory_id, { text: T.fates.compacted, to });
    }
  }
  for (const { event, data, recorded_at: at } of events) {
    const [kind, happened] = event.split(".");
    if (!TURNS.includes(kind)) continue;
    if (happened === "added" && data.session_id === session && !turns.has(data.memory_id)) {
      const said = { ...data, memory_type: kind, occurred_at: data.occurred_at_us ? new Date(data.occurred_at_us / 1000).toISOString() : at };
      turns.set(data.memory_id, { trust: "unknown", source: "memory", ...said, isGone: true });
    }
    if (GONE.includes(happened)) for (const id of data.memory_ids ?? [data.memory_id]) say(id, { text: T.fates[happened] });
    if (happened === "added") for (const id of data.evicted_ids ?? []) say(id, { text: T.fates.evicted });
    if (happened === "superseded") say(data.memory_id, { text: T.fates.superseded, to: data.superseded_by_id });
    if (happened === "compressed") for (const id of data.compressed_from_ids ?? []) say(id, { text: T.fates.compacted, to: data.memory_id });
    if (["unmarked", "reinstated", "restored"].includes(happened)) fates.delete(data.memory_id);
  }
  for (const { facts, undone_at: undone } of extractions) {
    for (const fact of undone ? [] : facts.filter((one) => one.memory_id))
      for (const id of fact.message_ids) say(id, { text: T.fates[fact.came] ?? fact.came, said: fact.content, to: fact.memory_id });
  }
  const shown = [...turns.values()].filter((turn) => turn.content && !drawn.has(turn.memory_id));
  return shown.sort((a, b) => a.occurred_at.localeCompare(b.occurred_at)).map((turn) => ({ turn, fates: fates.get(turn.memory_id) ?? [] }));
}

export default function Conversations({ user, params, set, toast }) {
  const sessions = useLoaded(() => sessionsOf(user), [user]);
  const [chosen, choose] = useState(params.session ?? "");
  const { named = [], summaries } = sessions.result ?? {};
  const session = chosen || named[0]?.[0];
  // Unicode isolates, because an option has no elements in it.
  const options = named.map(([id, at]) => [id, `\u2068${id}\u2069 · ${when(at)}`]);
  if (session && !named.some(([id]) => id === session)) options.unshift([session, session]);
  if (sessions.result && !session) return html`<${Empty} text=${T.noSessions} link=${T.seeMemories} to=${`#/memories?user=${encodeURIComponent(user)}`} />`;
  return html`<${Waiting} of=${sessions} />
    ${session && sessions.result && html`<div class="row"><${Select} label=${T.fields.session_id} value=${session} wide
      options=${options} change=${(id) => { choose(id); set({ session: id }); }} /></div>
    <${Session} key=${session} ...${{ user, session, summaries, toast }} />`}`;
}

function Session({ user, session, summaries, toast }) {
  const turns = useLoaded(() => turnsOf(user, session, summaries), [user, session]);
  const [chosen, choose] = useState(null);
  const sides = useMemo(() => [...new Set((turns.result ?? []).map(({ turn }) => turn.role))], [turns.result]);
  const open = (id) => call("get", { user_id: user }, { memory_id: id }).then(choose, () => toast(T.itIsGone));
  return html`<div class="split">
    <section class="box" aria-label=${T.turns}><${Waiting} of=${turns} />
      ${turns.result && html`<p class="quiet" role="status">${T.turnsCount(turns.result.length)}</p>`}
      <ol class="talk">${(turns.result ?? []).map(({ turn, fates }) => html`<li key=${turn.memory_id} class=${sides.indexOf(turn.role) % 2 ? "other" : ""}>
        <div class=${`turn ${turn.isGone ? "gone" : ""} ${chosen?.memory_id === turn.memory_id ? "chosen" : ""}`}>
          <p class="small quiet"><bdi class="who">${turn.role ?? turn.agent_id}</bdi> ${when(turn.occurred_at)}</p>
          <${Said} text=${turn.content} />
          ${fates.length > 0 && html`<ul class="plain fates">${fates.map((fate, at) => html`<li key=${at}><span class="tag">${fate.text}</span>
            ${fate.to && html`<button class="link small" onClick=${() => open(fate.to)}>${fate.said ? html`<${Said} text=${fate.said} />` : T.show}</button>`}</li>`)}</ul>`}
          <button class="link small" aria-pressed=${chosen?.memory_id === turn.memory_id} onClick=${() => choose(turn)}>${T.details}</button>
        </div></li>`)}</ol>
    </section>
    <section class="box aside" tabindex="0" aria-label=${T.details}>${chosen ? html`<${Details} user=${user} memory=${chosen} toast=${toast} />` : html`<p class="quiet">${T.chooseTurn}</p>`}</section>
  </div>`;
}
