// The timeline: the events of the log as they come, what each did, and what was behind it.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Failed, Said, VirtualList, json, snippet, when } from "../parts.js";
import { exactly } from "../language.js";
import { T } from "../texts.js";

const SHOWN = 1000;
const EVERY_MS = 1500;

/** The events of a user, newest first, and those that come while it is on. */
export function useEvents(user, live) {
  const [state, set] = useState({ events: null });
  const last = useRef(0);
  const take = (added) => {
    if (added.length) last.current = added[added.length - 1].position;
    set((before) => ({ events: [...[...added].reverse(), ...(before.events ?? [])].slice(0, SHOWN) }));
  };
  useEffect(() => {
    let isOn = true;
    call("system.events", { user_id: user, last: SHOWN }).then(
      (events) => isOn && take(events), (error) => isOn && set({ events: [], error }),
    );
    return () => { isOn = false; };
  }, [user]);
  const isKnown = state.events !== null && !state.error;
  useEffect(() => {
    if (!live || !isKnown) return;
    let isOn = true;
    let timer;
    const more = () => {
      const asked = document.hidden
        ? Promise.resolve([])
        : call("system.events", { user_id: user }, { after: last.current });
      asked.then((events) => isOn && events.length && take(events), () => undefined)
        .then(() => { if (isOn) timer = setTimeout(more, EVERY_MS); });
    };
    timer = setTimeout(more, EVERY_MS);
    return () => { isOn = false; clearTimeout(timer); };
  }, [user, live, isKnown]);
  return state;
}

const WORDS = ["content", "text", "name", "fact", "goal", "action", "query", "raw", "heading"];

/** The text of an event, or its data as JSON. */
export const gist = (data) => {
  const found = WORDS.map((name) => data[name]).find((value) => typeof value === "string" && value);
  return snippet(found ?? JSON.stringify(data));
};

export default function Timeline({ user }) {
  const [live, follow] = useState(true);
  const [chosen, choose] = useState(null);
  const { events, error } = useEvents(user, live);
  const at = events?.findIndex((one) => one.position === chosen?.position) ?? -1;
  return html`<div class="row"><button aria-pressed=${live} onClick=${() => follow(!live)}>${live ? T.live : T.paused}</button>
      <span class="quiet" role="status">${events && T.events(events.length)}</span>
      ${events?.length === SHOWN && html`<span class="quiet small">${T.older}</span>`}</div>
    <${Failed} error=${error} />
    ${!events && html`<p class="quiet" role="status">${T.loading}</p>`}
    ${events && html`<div class="split">
      <${VirtualList} count=${events.length} label=${T.views.timeline} chosen=${at} choose=${(index) => choose(events[index])}
        row=${(index) => html`<span class="tag">${events[index].event}</span><span class="small quiet">${when(events[index].recorded_at, exactly)}</span>
          <${Said} text=${gist(events[index].data)} />`} />
      <section class="box" aria-label=${T.details}>${chosen ? html`<${Event} event=${chosen} />` : html`<p class="quiet">${T.choose}</p>`}</section>
    </div>`}`;
}

const Event = ({ event }) => html`<table><tbody>
    ${[
      [T.event, `${event.event} (${T.position(event.position)})`], [T.fields.created_at, when(event.recorded_at, exactly)],
      [T.byCommand, event.cause.command], [T.byAgent, event.cause.agent_id], [T.bySession, event.cause.session_id],
    ].filter(([, value]) => value).map(([name, value]) => html`<tr key=${name}><th scope="row">${name}</th><td><${Said} text=${value} /></td></tr>`)}
  </tbody></table>
  <h3>${T.eventData}</h3><pre class="data" tabindex="0">${json(event.data)}</pre>`;
