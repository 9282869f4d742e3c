// Memories of all kinds: a list of any length, and one of them in full, to be changed or deleted.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Details } from "../details.js";
import {
  Empty, Failed, Field, HELP, MemoryList, Select, kindOptions, trustOptions, useAction, useCall,
  usePages, useSettled,
} from "../parts.js";
import { T } from "../texts.js";

/** The conditions as the operations take them; null: what is written as metadata is no JSON object. */
function conditions({ kind, trust, source, metadata, text, session, since, until }) {
  let filters;
  if (metadata) {
    try { filters = JSON.parse(metadata); } catch { return null; }
    if (filters === null || typeof filters !== "object" || Array.isArray(filters)) return null;
  }
  return {
    memory_types: kind ? [kind] : undefined, min_trust: trust || undefined,
    sources: source ? [source] : undefined, filters, contains: text || undefined,
    session_id: session || undefined, since: since || undefined, until: until ? `${until}T23:59:59.999Z` : undefined,
  };
}

export default function Memories({ user, params, set, toast }) {
  const [asked, ask] = useState({
    kind: params.kind ?? "", text: params.text ?? "", session: params.session ?? "", since: "", until: "",
    trust: "", source: "", metadata: "",
  });
  const [turn, again] = useState(0);
  const [adding, add] = useState(false);
  const [chosen, choose] = useState(null);
  const wanted = useRef(params.id);
  const settled = useSettled(asked);
  const which = conditions(settled);
  const on = { user_id: user };
  const count = useCall("count", on, which ?? {}, { isWanted: which !== null });
  const pages = usePages(
    (offset, limit) => call("list_memories", on, { ...which, offset, limit }), [user, settled, turn],
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
    set({ id: memory.memory_id, kind: asked.kind, text: asked.text, session: asked.session });
  };
  const isAll = Object.values(asked).every((value) => value === "");
  return html`<form onSubmit=${(event) => event.preventDefault()}><div class="row">
      <${Field} label=${T.textFilter} value=${asked.text} change=${change("text")} type="search" wide />
      <${Field} label=${T.fields.session_id} value=${asked.session} change=${change("session")} placeholder=${T.anySession} />
      <${Select} label=${T.kind} value=${asked.kind} options=${kindOptions} change=${change("kind")} />
      <button type="button" aria-expanded=${adding} onClick=${() => add(!adding)}>${T.addMemory}</button></div>
      <details open=${asked.metadata || asked.source || asked.trust ? true : undefined}><summary>${T.filters}</summary><div class="row">
      <${Field} label=${T.since} value=${asked.since} change=${change("since")} type="date" />
      <${Field} label=${T.until} value=${asked.until} change=${change("until")} type="date" />
      <${Select} label=${T.trust} value=${asked.trust} options=${trustOptions} change=${change("trust")} />
      <${Field} label=${T.source} value=${asked.source} change=${change("source")} placeholder=${T.anySource} />
      <${Field} label=${T.metadataFilter} value=${asked.metadata} change=${change("metadata")} placeholder=${'{"category": "sports"}'} wide
        aria-invalid=${which === null} /></div></details>
    </form>
    ${which === null && html`<p class="bad" role="alert">${T.badJson}</p>`}
    ${adding && html`<${Adding} on=${on} done=${() => { add(false); toast(T.saved); changed(); }} />`}
    ${isAll && count.result === 0 && html`<${Empty} text=${T.noMemories} link=${T.howToAdd} to=${HELP.add} />`}
    ${!isAll && count.result === 0 && html`<p class="empty" role="status">${T.noMatch} <button
      onClick=${() => ask(Object.fromEntries(Object.keys(asked).map((name) => [name, ""])))}>${T.clearFilters}</button></p>`}
    <div class="split" hidden=${count.result === 0}>
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
