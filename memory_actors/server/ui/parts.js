// The parts that several views are made of.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { call } from "./api.js";
import { bytes, clock, day, moment, number, percent, thousandths } from "./language.js";
import { T } from "./texts.js";

const PAGE = 100;
const TALLEST = 12e6; // pixels: a browser draws nothing in an element that is much taller
const SETTLES_MS = 200;
const SNIPPET = 300; // characters of a text in a row

export const when = (iso, write = moment) => (iso ? write(new Date(iso)) : T.never);
export const json = (value) => JSON.stringify(value, null, 2);
export const snippet = (text) => (text.length > SNIPPET ? `${text.slice(0, SNIPPET)}…` : text);
export const named = (names, key) => names[key] ?? key;

/** How full a quota is; its name is that of the log, as in `long_term.bytes`. */
export const fullness = ({ quota, unit, used, limit }) => {
  const [kind, limited] = quota.split(".");
  const size = unit === "bytes" ? bytes : number;
  return T.userFull(T.quotaOf(named(T.kinds, kind), named(T.quotas, limited)), size(used), size(limit));
};

/** Somebody's words: shown as they are, whatever direction they run in. */
export const Said = ({ text, lang }) => html`<span class="text" dir="auto" lang=${lang}>${text}</span>`;

/** Ask for an operation whenever it, or what else it depends on, changes; the last answer counts. */
export function useCall(operation, on, args, { isWanted = true, depends } = {}) {
  const [state, set] = useState({ loading: isWanted });
  const [turn, again] = useState(0);
  const asked = JSON.stringify([operation, on, args, isWanted, depends, turn]);
  useEffect(() => {
    if (!isWanted) return set({ loading: false });
    let isLast = true;
    set((before) => ({ ...before, loading: true }));
    call(operation, on, args).then(
      (result) => isLast && set({ result, loading: false }),
      (error) => isLast && set({ error, loading: false }),
    );
    return () => { isLast = false; };
  }, [asked]);
  return { ...state, again: () => again((value) => value + 1) };
}

/** A value that moves, once it rests for a moment. */
export function useSettled(value) {
  const [settled, settle] = useState(value);
  const key = JSON.stringify(value);
  useEffect(() => {
    const timer = setTimeout(() => settle(value), SETTLES_MS);
    return () => clearTimeout(timer);
  }, [key]);
  return settled;
}

/** Load by a function, and again after each change of `depends`; the last answer counts. */
export function useLoaded(load, depends) {
  const [state, set] = useState({ loading: true });
  useEffect(() => {
    let isLast = true;
    set({ loading: true });
    load().then((result) => isLast && set({ result }), (error) => isLast && set({ error }));
    return () => { isLast = false; };
  }, depends);
  return state;
}

/** Load by a function, and again every `everyMs` while the page is in sight. */
export function useEvery(everyMs, load) {
  const [state, set] = useState({});
  useEffect(() => {
    let isOn = true;
    let timer;
    const read = () => {
      const asked = document.hidden ? Promise.resolve() : load().then((result) => isOn && set({ result }), (error) => isOn && set((before) => ({ ...before, error })));
      asked.then(() => { if (isOn) timer = setTimeout(read, everyMs); });
    };
    read();
    return () => { isOn = false; clearTimeout(timer); };
  }, []);
  return state;
}

/** Run something that changes: it can fail, and says so. */
export function useAction() {
  const [state, set] = useState({ busy: false });
  const run = (work) => {
    set({ busy: true });
    return Promise.resolve().then(work).then(
      (result) => { set({ busy: false }); return result; },
      (error) => { set({ busy: false, error }); },
    );
  };
  return { ...state, run };
}

export const Failed = ({ error, again }) =>
  error &&
  html`<p class="bad" role="alert">
    ${T.failed}<${Said} text=${error.message} lang="en" /> ${again && html`<button onClick=${again}>${T.again}</button>`}
  </p>`;

export const HELP = { add: "docs" }; // the manual that the server has

/** An empty state with a link that helps: to a view, or to the manual. */
export const Empty = ({ text, link, to }) => html`<p class="empty" role="status">${text} <a href=${to}
  target=${to.startsWith("#") ? undefined : "_blank"} rel="noreferrer">${link}</a></p>`;

export const Waiting = ({ of }) =>
  html`${of.loading && of.result === undefined && html`<p class="quiet" role="status">${T.loading}</p>`}
    <${Failed} error=${of.error} again=${of.again} />`;

/** The pages of a long list, fetched as they are looked at. */
export function usePages(fetch, depends) {
  const pages = useRef(new Map());
  const [, draw] = useState(0);
  const [error, fail] = useState(null);
  const key = JSON.stringify(depends);
  const known = useRef(key);
  if (known.current !== key) {
    known.current = key;
    pages.current = new Map();
  }
  const held = pages.current; // what is fetched for an earlier list stays with that one
  const seen = (first, last) => {
    for (let page = Math.floor(first / PAGE); page <= Math.floor(last / PAGE); page += 1) {
      if (held.has(page)) continue;
      held.set(page, null);
      fetch(page * PAGE, PAGE).then(
        (items) => { held.set(page, items); draw((turn) => turn + 1); },
        (failed) => { held.delete(page); fail(failed); },
      );
    }
  };
  const item = (index) => held.get(Math.floor(index / PAGE))?.[index % PAGE] ?? null;
  return { item, seen, error };
}

/** A list of any length, of which only what is in sight is drawn. One stop of the Tab key; the
 * arrows, Page, Home and End move in it, Enter chooses. */
export function VirtualList({ count, height = 56, row, seen, chosen, choose, label, short }) {
  const box = useRef(null);
  const [view, look] = useState({ top: 0, height: 600 });
  const [active, move] = useState(0);
  const id = useMemo(() => `list-${Math.random().toString(36).slice(2)}`, []);
  const whole = count * height;
  const drawn = Math.min(whole, TALLEST);
  const scale = drawn > view.height ? (whole - view.height) / (drawn - view.height) : 1;
  const top = view.top * scale;
  const first = Math.max(0, Math.floor(top / height) - 4);
  const last = Math.min(count - 1, Math.ceil((top + view.height) / height) + 4);
  useLayoutEffect(() => {
    const measure = () =>
      box.current && look({ top: box.current.scrollTop, height: box.current.clientHeight });
    measure();
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, [count]);
  useEffect(() => { if (seen && last >= first) seen(first, last); });
  const to = (index) => {
    const next = Math.max(0, Math.min(count - 1, index));
    move(next);
    const [from, until] = [next * height, (next + 1) * height];
    if (from < top) box.current.scrollTop = from / scale;
    else if (until > top + view.height) box.current.scrollTop = (until - view.height) / scale;
  };
  const onKeyDown = (event) => {
    const page = Math.max(1, Math.floor(view.height / height) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    if (event.key in moves) to(active + moves[event.key]);
    else if (event.key === "Enter" || event.key === " ") choose?.(active);
    else return;
    event.preventDefault();
  };
  const rows = [];
  for (let index = first; index <= last; index += 1) {
    const item = row(index);
    rows.push(html`<div
      key=${index} id=${`${id}-${index}`} role="option" aria-selected=${index === chosen}
      aria-setsize=${count} aria-posinset=${index + 1}
      class=${index === active ? "item active" : "item"}
      style=${{ top: `${index * height - top + view.top}px`, height: `${height}px` }}
      onClick=${() => { move(index); choose?.(index); }}
    >${item ?? html`<span class="quiet">${T.loading}</span>`}</div>`);
  }
  if (!count) return html`<p class="quiet">${T.none}</p>`;
  return html`<div
    ref=${box} class=${short ? "list short" : "list"} role="listbox" tabindex="0" aria-label=${label}
    aria-activedescendant=${active >= first && active <= last ? `${id}-${active}` : undefined}
    onKeyDown=${onKeyDown}
    style=${{ maxHeight: `${count * height + 2}px` }} onScroll=${() => look({ top: box.current.scrollTop, height: box.current.clientHeight })}
  ><div role="presentation" style=${{ height: `${drawn}px`, position: "relative" }}>${rows}</div></div>`;
}

export const Meter = ({ label, used, limit, calm }) => {
  const part = limit ? Math.min(1, used / limit) : 0;
  return html`<div
    class=${part >= 0.8 && !calm ? "meter full" : "meter"} role="meter" aria-label=${label}
    aria-valuenow=${used} aria-valuemin="0" aria-valuemax=${Math.max(limit, used, 1)}
  ><div style=${{ width: `${part * 100}%` }}></div></div>`;
};

const signalName = (name) => (name === "newer" ? T.newer : named(T.weights, name));

/** The signal that lifts a hit most, and its part of all that lifts it. */
export function because(signals) {
  const lifting = Object.entries(signals).filter(([, value]) => value > 0);
  const sum = lifting.reduce((total, [, value]) => total + value, 0);
  if (!sum) return null;
  const [name, most] = lifting.reduce((best, one) => (one[1] > best[1] ? one : best));
  return T.rankBecause(signalName(name), percent(most / sum));
}

const strongest = (values) => Math.max(0, ...Object.values(values).map(Math.abs));

/** The greatest of the numbers of several hits: the common scale of their bars. */
export const scaleOf = (hits) => Math.max(1e-9, ...hits.map((hit) => strongest(hit.signals ?? {})));

/** Signals by name, each with a bar of its size in `most`; those that are nought are left out. */
export function Bars({ values, label, most }) {
  const sorted = Object.entries(values).filter(([, value]) => value !== 0).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  return html`<table class="bars" aria-label=${label}><tbody>${sorted.map(
    ([name, value]) => html`<tr key=${name}>
      <th scope="row">${signalName(name)}</th>
      <td class="figure">${thousandths(value)}</td>
      <td><div class=${value < 0 ? "bar minus" : "bar"}
        style=${{ width: `${(100 * Math.abs(value)) / most}%` }}></div></td>
    </tr>`,
  )}</tbody></table>`;
}

const MARGIN = { left: 52, right: 12, top: 8, bottom: 22 };
const TALL = 180;

/** The next of 2, 4, 10, 20, 40, 100, …: its half is round, too. */
const roundUp = (value) => {
  const ten = 10 ** Math.floor(Math.log10(value));
  return [2, 4, 10].map((one) => one * ten).find((one) => one >= value);
};

/** A curve over time: points are [milliseconds since 1970, value], in order. */
export function Chart({ title, points, format = number }) {
  const box = useRef(null);
  const [width, measure] = useState(400);
  useLayoutEffect(() => {
    const fit = () => box.current && measure(box.current.clientWidth);
    fit();
    addEventListener("resize", fit);
    return () => removeEventListener("resize", fit);
  }, []);
  const most = roundUp(Math.max(2, ...points.map(([, value]) => value)));
  const [from, until] = [points[0]?.[0] ?? 0, points.at(-1)?.[0] ?? 1];
  const x = (at) => MARGIN.left + ((at - from) / (until - from || 1)) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => TALL - MARGIN.bottom - (value / most) * (TALL - MARGIN.top - MARGIN.bottom);
  const line = points.map(([at, value]) => `${x(at)} ${y(value)}`).join("L");
  const written = until - from > 86400000 ? day : clock;
  const latest = points.at(-1);
  const said = latest ? `${title}: ${format(latest[1])}, ${T.atMost(format(Math.max(...points.map(([, value]) => value))))}` : `${title}: ${T.noFigure}`;
  return html`<h3>${title}</h3><div ref=${box} class="chart" role="img" aria-label=${said}>
    ${!points.length ? html`<p class="quiet">${T.noFigureYet}</p>` : html`<svg width=${width} height=${TALL}>
      ${[0, most / 2, most].map((value) => html`<g key=${value}><line x1=${MARGIN.left} x2=${width - MARGIN.right} y1=${y(value)} y2=${y(value)} />
        <text x=${MARGIN.left - 6} y=${y(value) + 4} text-anchor="end">${format(value)}</text></g>`)}
      <path class="area" d=${`M${x(from)} ${y(0)}L${line}L${x(until)} ${y(0)}z`} /><path class="curve" d=${`M${line}`} />
      ${points.length === 1 && html`<circle cx=${x(until)} cy=${y(latest[1])} r="3" />`}
      <text x=${MARGIN.left} y=${TALL - 6}>${written(from)}</text>
      ${points.length > 1 && html`<text x=${width - MARGIN.right} y=${TALL - 6} text-anchor="end">${written(until)}</text>`}
    </svg>`}</div>`;
}

export const Card = ({ name, value, more }) => html`<div class="card"><span class="small quiet">${name}</span><b>${value}</b>
  ${more && html`<span class="small quiet">${more}</span>`}</div>`;

export const Select = ({ label, value, options, change, wide }) =>
  html`<label class=${wide ? "wide" : ""}>${label}<select value=${value} onChange=${(event) => change(event.target.value)}>
    ${options.map(([key, name]) => html`<option key=${key} value=${key}>${name}</option>`)}
  </select></label>`;

export const Field = ({ label, value, change, type = "text", wide, ...more }) =>
  html`<label class=${wide ? "wide" : ""}>${label}<input
    type=${type} dir="auto" value=${value} onInput=${(event) => change(event.target.value)} ...${more} /></label>`;

export const KINDS = ["long_term", "short_term", "working", "entity", "episodic", "structured", "context"];
export const kindOptions = [["", T.allKinds], ...KINDS.map((kind) => [kind, T.kinds[kind]])];
export const trustOptions = [["", T.anyTrust], ...["unknown", "trusted"].map((one) => [one, T.trusts[one]])];

export const Tags = ({ memory }) => html`
  <span class="tag">${named(T.kinds, memory.source === "compressed" ? "compressed" : memory.memory_type)}</span>
  ${memory.pinned && html`<span class="tag">${T.pinned}</span>`}
  ${memory.trust !== "unknown" && html`<span class=${memory.trust === "untrusted" ? "tag bad" : "tag"}>${named(T.trusts, memory.trust)}</span>`}`;

/** The memories that a call counts, in a list, by the pages that are fetched of it. */
export const MemoryList = ({ count, pages, label, chosen, choose, short }) => html`
  <p class="quiet" role="status">${count.result !== undefined && T.memoriesCount(count.result)}</p>
  <${Waiting} of=${count} /><${Failed} error=${pages.error} />
  ${count.result !== undefined && html`<${VirtualList}
    count=${count.result} label=${label} short=${short} seen=${pages.seen} chosen=${chosen?.at}
    choose=${(at) => pages.item(at) && choose(at, pages.item(at))}
    row=${(at) => { const memory = pages.item(at); return memory && html`<${MemoryRow} memory=${memory} />`; }}
  />`}`;

/** The speaker, the session and the time of a memory. */
export const SaidBy = ({ memory }) => html`<bdi class="who">${memory.role ?? memory.agent_id}</bdi>${" "}
  ${memory.session_id && html`${T.inSession} <bdi class="who">${memory.session_id}</bdi> · `}${when(memory.occurred_at)}`;

/** A memory in a row of a list: two lines. */
export const MemoryRow = ({ memory }) => html`
  <${Said} text=${snippet(memory.content)} />
  <span class="small quiet about"><${Tags} memory=${memory} /><${SaidBy} memory=${memory} /></span>`;
