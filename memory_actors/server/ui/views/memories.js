// Memories of all kinds: a list of any length, and one of them in full, to be changed or deleted.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Details } from "../details.js";
import {
  Failed, Field, MemoryList, Select, kindOptions, trustOptions, useAction, useCall, usePages,
} from "../parts.js";
import { T } from "../texts.js";

/** The conditions as the operations take them; null: what is written as metadata is no JSON object. */
function conditions({ kind, trust, source, metadata }) {
  let filters;
  if (metadata) {
    try { filters = JSON.parse(metadata); } catch { return null; }
    if (filters === null || typeof filters !== "object" || Array.isArray(filters)) return null;
  }
  return {
    memory_types: kind ? [kind] : undefined, min_trust: trust || undefined,
    sources: source ? [source] : undefined, filters,
  };
}

export default function Memories({ user, params, set, toast }) {
  const [asked, ask] = useState({ kind: params.kind ?? "", trust: "", source: "", metadata: "" });
  const [turn, again] = useState(0);
  const [adding, add] = useState(false);
  const [chosen, choose] = useState(null);
  const wanted = useRef(params.id);
  const which = conditions(asked);
  const on = { user_id: user };
  const count = useCall("count", on, which ?? {}, { isWanted: which !== null });
  const pages = usePages(
    (offset, limit) => call("list_memories", on, { ...which, offset, limit }), [user, asked, turn],
  );
  useEffect(() => {
    if (!wanted.current) return;
    call("get", on, { memory_id: wanted.current }).then(
      (memory) => choose((before) => ({ at: before?.at ?? -1, memory })), () => choose(null),
    );
  }, [turn]);
  const want = (id) => {
    wanted.current = id;
    if (!id) choose(null);
  };
  const changed = (isGone) => {
    if (isGone) want(null);
    again((value) => value + 1);
    count.again();
  };
  const change = (name) => (value) => { ask({ ...asked, [name]: value }); want(null); };
  const open = (at, memory) => {
    want(memory.memory_id);
    choose({ at, memory });
    set({ id: memory.memory_id, kind: asked.kind });
  };
  return html`<form class="row" onSubmit=${(event) => event.preventDefault()}>
      <${Select} label=${T.kind} value=${asked.kind} options=${kindOptions} change=${change("kind")} />
      <${Select} label=${T.trust} value=${asked.trust} options=${trustOptions} change=${change("trust")} />
      <${Field} label=${T.source} value=${asked.source} change=${change("source")} placeholder=${T.anySource} />
      <${Field} label=${T.metadataFilter} value=${asked.metadata} change=${change("metadata")} placeholder=${'{"category": "sports"}'} wide
        aria-invalid=${which === null} />
      <button type="button" aria-expanded=${adding} onClick=${() => add(!adding)}>${T.addMemory}</button>
    </form>
    ${which === null && html`<p class="bad" role="alert">${T.badJson}</p>`}
    ${adding && html`<${Adding} on=${on} done=${() => { add(false); toast(T.saved); changed(); }} />`}
    <div class="split">
      <div><${MemoryList} count=${count} pages=${pages} label=${T.views.memories} chosen=${chosen} choose=${open} /></div>
      <section class="box aside" tabindex="0" aria-label=${T.details}>
        <${Details} user=${user} memory=${chosen?.memory} changed=${changed} toast=${toast} />
      </section>
    </div>`;
}

function Adding({ on, done }) {
  const [content, write] = useState("");
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => { await call("add", on, { content }); done(); });
  };
  return html`<form class="box" onSubmit=${submit}>
    <label>${T.content}<textarea required dir="auto" value=${content} onInput=${(event) => write(event.target.value)}></textarea></label>
    <p><button class="main" disabled=${action.busy}>${T.add}</button></p>
    <${Failed} error=${action.error} />
  </form>`;
}
