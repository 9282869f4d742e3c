// Time travel: two handles on the user's events; the memory as it was at one of them, and what
// changed between the two.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Details } from "../details.js";
import { Empty, Failed, HELP, MemoryList, Said, VirtualList, Waiting, named, snippet, useCall, usePages, useSettled, when } from "../parts.js";
import { exactly } from "../language.js";
import { T } from "../texts.js";
import { useEvents } from "./timeline.js";

export default function Travel({ user }) {
  const { events, error } = useEvents(user, false);
  if (error) return html`<${Failed} error=${error} />`;
  if (!events) return html`<p class="quiet" role="status">${T.loading}</p>`;
  if (!events.length) return html`<${Empty} text=${T.noEvents} link=${T.howToAdd} to=${HELP.add} />`;
  return html`<${Moments} user=${user} events=${[...events].reverse()} />`;
}

function Moments({ user, events }) {
  const last = events.length - 1;
  const [handles, move] = useState({ a: Math.floor(last / 2), b: last });
  const settled = useSettled(handles);
  const slider = (name, label) => {
    const { position, recorded_at: at } = events[handles[name]];
    const said = T.moment(position, when(at, exactly));
    return html`<label class="wide">${label}: ${said}<input type="range" min="0" max=${last} value=${handles[name]}
      aria-valuetext=${said} onInput=${(event) => move({ ...handles, [name]: Number(event.target.value) })} /></label>`;
  };
  const [a, b] = [events[settled.a].position, events[settled.b].position];
  return html`<div class="box">${slider("a", T.momentA)}${slider("b", T.momentB)}</div>
    <div class="split even"><${Then} user=${user} position=${b} /><${Changes} user=${user} a=${Math.min(a, b)} b=${Math.max(a, b)} /></div>`;
}

function Then({ user, position }) {
  const on = { user_id: user, as_of: position };
  const count = useCall("count", on);
  const pages = usePages((offset, limit) => call("list_memories", on, { offset, limit }), [user, position]);
  const [chosen, choose] = useState(null);
  useEffect(() => choose(null), [position]);
  return html`<section aria-label=${T.thenTitle}><h3>${T.thenTitle}</h3>
    <${MemoryList} short count=${count} pages=${pages} label=${T.thenTitle} chosen=${chosen} choose=${(at, memory) => choose({ at, memory })} />
    ${chosen && html`<div class="box"><${Details} user=${user} memory=${chosen.memory} asOf=${position} /></div>`}
  </section>`;
}

function Changes({ user, a, b }) {
  const diff = useCall("system.diff", { user_id: user }, { a, b, dropped: "mark" });
  const changes = diff.result?.changes ?? [];
  const height = changes.some(({ before, after }) => before && after) ? 92 : 64;
  return html`<section aria-label=${T.changesTitle}><h3>${T.changesTitle}</h3><${Waiting} of=${diff} />
    ${diff.result && html`<p class="quiet" role="status">${changes.length ? T.changesCount(changes.length) : T.noChanges}
      ${diff.result.lost > 0 && T.lost(diff.result.lost)}</p>
      ${changes.length > 0 && html`<${VirtualList} short count=${changes.length} height=${height} label=${T.changesTitle}
        row=${(at) => html`<${Changed} change=${changes[at]} />`} />`}`}
  </section>`;
}

const Changed = ({ change }) => html`<span class="tag">${named(T.change, change.change)}</span><span class="tag">${named(T.kinds, change.memory_type)}</span>
  ${change.before && change.before.content !== change.after?.content && html`<del><${Said} text=${snippet(change.before.content)} /></del>`}
  ${change.after && html`<${Said} text=${snippet(change.after.content)} />`}`;
