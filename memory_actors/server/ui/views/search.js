// The search debugger: a query, its hits and their signals, what each filter keeps out, and the same
// query under two weightings.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Details } from "../details.js";
import {
  Bars, Failed, Field, MemoryRow, Said, SaidBy, Select, Tags, because, kindOptions, scaleOf, snippet,
  trustOptions, useAction,
} from "../parts.js";
import { thousandths } from "../language.js";
import { T } from "../texts.js";

const UNANSWERED = 0.2; // a chance below it: nothing that is found answers
const FILTERS = ["memory_types", "min_trust", "since", "until"];
const WEIGHTS = Object.keys(T.weights);
const filterNames = { memory_types: T.kind, min_trust: T.trust, since: T.since, until: T.until };

const moment = (text) => (/^\d+$/.test(text) ? Number(text) : text);

/** The weights that are filled in; undefined: as the engine weighs. */
function weighed(texts) {
  const given = Object.entries(texts).filter(([, text]) => text !== "").map(([name, text]) => [name, Number(text)]);
  return given.length ? Object.fromEntries(given) : undefined;
}

/** Ask once with all filters and once without each; what only the latter finds, it keeps out. */
async function searched(on, query, filters, weightings) {
  const retrieve = (conditions, weights) =>
    call("retrieve", on, { ...query, ...conditions, weights, explain: true });
  const lists = await Promise.all(weightings.map((weights) => retrieve(filters, weights)));
  const here = new Set(lists[0].map((hit) => hit.memory_id));
  const removed = await Promise.all(
    FILTERS.filter((name) => filters[name] !== undefined).map(async (name) => {
      const without = await retrieve({ ...filters, [name]: undefined }, weightings[0]);
      return { name, hits: without.filter((hit) => !here.has(hit.memory_id)) };
    }),
  );
  return { lists, removed };
}

export default function Search({ user, params, set, toast }) {
  const [form, fill] = useState({
    query: params.q ?? "", top_k: "10", kind: "", trust: "", since: "", until: "", asOf: params.as_of ?? "",
  });
  const [weights, weigh] = useState([{}, {}]);
  const [compares, compare] = useState(false);
  const [found, find] = useState(null);
  const [chosen, choose] = useState(null);
  const action = useAction();
  const change = (name) => (value) => fill({ ...form, [name]: value });
  const submit = (event) => {
    event?.preventDefault();
    const on = { user_id: user, as_of: form.asOf === "" ? undefined : moment(form.asOf) };
    const filters = {
      memory_types: form.kind ? [form.kind] : undefined, min_trust: form.trust || undefined,
      since: form.since || undefined, until: form.until || undefined,
    };
    const query = { query: form.query, top_k: Number(form.top_k) || undefined };
    const weightings = (compares ? weights : weights.slice(0, 1)).map(weighed);
    set({ q: form.query, as_of: form.asOf });
    action.run(async () => {
      find(await searched(on, query, filters, weightings));
      choose(null);
    });
  };
  useEffect(() => { if (form.query) submit(); }, []); // the address says what is asked
  return html`<form onSubmit=${submit}><div class="row">
      <${Field} label=${T.query} value=${form.query} change=${change("query")} type="search" required wide />
      <${Field} label=${T.topK} value=${form.top_k} change=${change("top_k")} type="number" min="1" max="100" />
      <button class="main" disabled=${action.busy}>${T.search}</button></div>
      <details open=${form.kind || form.trust || form.since || form.until || form.asOf ? true : undefined}><summary>${T.filters}</summary><div class="row">
        <${Select} label=${T.kind} value=${form.kind} options=${kindOptions} change=${change("kind")} />
        <${Select} label=${T.trust} value=${form.trust} options=${trustOptions} change=${change("trust")} />
        <${Field} label=${T.since} value=${form.since} change=${change("since")} type="date" />
        <${Field} label=${T.until} value=${form.until} change=${change("until")} type="date" />
        <${Field} label=${T.asOf} value=${form.asOf} change=${change("asOf")} title=${T.asOfHelp} placeholder="2026-01-31" />
      </div></details>
      <label class="check"><input type="checkbox" checked=${compares} onChange=${(event) => compare(event.target.checked)} />${T.compare}</label>
      ${(compares ? [0, 1] : []).map((side) => html`<fieldset key=${side} class="row"><legend>${T.weighting(side + 1)}</legend>
        ${WEIGHTS.map((name) => html`<${Field} key=${name} label=${T.weights[name]} type="number" step="any" placeholder=${T.asUsual}
          value=${weights[side][name] ?? ""}
          change=${(value) => weigh(weights.map((one, at) => (at === side ? { ...one, [name]: value } : one)))} />`)}
      </fieldset>`)}
    </form>
    <${Failed} error=${action.error} />
    ${!found && html`<p class="quiet">${T.searchEmpty}</p>`}
    ${found && html`<div class=${found.lists.length > 1 ? "split even" : "split"}>
      ${found.lists.map((hits, side) => html`<${Hits} key=${side} hits=${hits} side=${found.lists.length > 1 ? side : null}
        most=${scaleOf(found.lists.flat())} other=${found.lists[1 - side]} choose=${choose} chosen=${chosen} />`)}
      <section class="box aside" tabindex="0" aria-label=${T.details}><${Details} user=${user} memory=${chosen} asOf=${form.asOf === "" ? undefined : moment(form.asOf)} toast=${toast} /></section>
    </div><${Removed} removed=${found.removed} />`}`;
}

function Hits({ hits, side, most, other, choose, chosen }) {
  const answered = hits[0]?.answered ?? 0;
  const rank = (id) => {
    const at = other?.findIndex((hit) => hit.memory_id === id);
    return at === undefined || at < 0 ? null : at + 1;
  };
  return html`<section class="box" aria-label=${side === null ? T.views.search : T.weighting(side + 1)}>
    <p role="status">${side !== null && html`<b>${T.weighting(side + 1)}</b> · `}${T.found(hits.length)}${hits.length > 0 && html` · ${T.answered(answered)}`}</p>
    ${answered < UNANSWERED && html`<p class="note" role="status">${hits.length ? T.nothingRelevant : T.nothingFound}</p>`}
    <ol class="hits">${hits.map((hit, at) => html`<li key=${hit.memory_id}>
      <div><b>${at + 1}.</b> <${Said} text=${snippet(hit.content)} /></div>
      <p class="small quiet"><${Tags} memory=${hit} /><${SaidBy} memory=${hit} /> · ${T.fields.score} ${thousandths(hit.score)}
        ${side !== null && html` · ${T.rankMoved(rank(hit.memory_id))}`}</p>
      ${hit.signals && html`<details open=${at === 0}><summary class="small">${because(hit.signals) ?? T.signalsOf}</summary>
        <${Bars} values=${hit.signals} most=${most} label=${T.signalsOf} /></details>`}
      <button aria-pressed=${chosen?.memory_id === hit.memory_id} onClick=${() => choose(hit)}>${T.why}</button>
    </li>`)}</ol></section>`;
}

const Removed = ({ removed }) =>
  removed.length > 0 &&
  html`<section class="box"><h3>${T.removedTitle}</h3>${removed.map(({ name, hits }) => html`<div key=${name}>
    <p>${hits.length ? T.removedBy(filterNames[name], hits.length) : T.removedNone(filterNames[name])}</p>
    <ul class="plain">${hits.map((hit) => html`<li key=${hit.memory_id}><${MemoryRow} memory=${hit} /></li>`)}</ul>
  </div>`)}</section>`;
