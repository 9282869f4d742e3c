// The memories that wait for a review: j and k move, a approves, r rejects.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Details } from "../details.js";
import { Empty, Failed, MemoryRow, Waiting, useAction, useCall } from "../parts.js";
import { T } from "../texts.js";

export default function Review({ user, toast }) {
  const on = { user_id: user };
  const pending = useCall("pending", on, { limit: 100 });
  const [at, move] = useState(0);
  const action = useAction();
  const box = useRef(null);
  const memories = pending.result ?? [];
  const active = Math.min(at, memories.length - 1);
  const memory = memories[active];
  useEffect(() => box.current?.focus(), [memories.length > 0]);
  useEffect(() => box.current?.children[active]?.scrollIntoView({ block: "nearest" }), [active]);
  const decide = (operation) => !action.busy && action.run(async () => {
    await call(operation, on, { memory_ids: [memory.memory_id] });
    toast(T.reviewed[operation]);
    pending.again();
  });
  const step = (by) => move(Math.max(0, Math.min(memories.length - 1, active + by)));
  const keys = {
    j: () => step(1), ArrowDown: () => step(1), k: () => step(-1), ArrowUp: () => step(-1),
    a: () => decide("approve"), r: () => decide("reject"),
  };
  const onKeyDown = (event) => {
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  };
  if (!memories.length) return html`<${Waiting} of=${pending} />${pending.result && html`<${Empty} text=${T.nothingPending}
    link=${T.seeMemories} to=${`#/memories?user=${encodeURIComponent(user)}`} />`}`;
  return html`<p class="quiet" role="status">${T.memoriesCount(memories.length)} · ${T.reviewKeys}</p>
    <div class="split">
      <div ref=${box} class="list" role="listbox" tabindex="0" aria-label=${T.views.review}
        aria-activedescendant=${`pending-${active}`} onKeyDown=${onKeyDown}>${memories.map((one, index) => html`<div
          key=${one.memory_id} id=${`pending-${index}`} role="option" aria-selected=${index === active}
          class=${index === active ? "item active" : "item"} style=${{ position: "static" }} onClick=${() => move(index)}
        ><${MemoryRow} memory=${one} /></div>`)}</div>
      <section class="box aside" aria-label=${T.details}>
        <div class="row"><button class="main" disabled=${action.busy} onClick=${() => decide("approve")}>${T.approve}</button>
          <button class="danger" disabled=${action.busy} onClick=${() => decide("reject")}>${T.reject}</button></div>
        <${Failed} error=${action.error} />
        <${Details} user=${user} memory=${memory} toast=${toast} />
      </section>
    </div>`;
}
