// One memory: what it says, where it comes from, why it is here, and what can be done with it.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { call } from "./api.js";
import { Failed, Said, Tags, Waiting, json, named, useAction, useCall, when } from "./parts.js";
import { bytes, exactly, seconds } from "./language.js";
import { T } from "./texts.js";

const TIMES = ["created_at", "occurred_at", "last_seen_at"];
const shown = (name, value) => {
  if (TIMES.includes(name)) return when(value, exactly);
  if (name === "size_bytes") return bytes(value);
  if (name === "ttl_s") return seconds(value);
  return String(value);
};
const FIELDS = [
  "memory_id", "created_at", "occurred_at", "session_id", "role", "key", "size_bytes", "ttl_s",
  "times_seen", "last_seen_at", "superseded_by",
];
const ONCE = ["times_seen", "last_seen_at"]; // they say nothing of a memory that was told once
const isShown = (memory) => (name) =>
  (memory[name] ?? null) !== null && !(ONCE.includes(name) && memory.times_seen < 2)
  && !(name === "occurred_at" && memory.occurred_at === memory.created_at);
const NARROW = 800; // pixels: the details are below what they are of
const EDITED = ["long_term", "short_term", "working"];
const PINNED = ["long_term", "entity", "episodic", "structured"];
const OF_DOCUMENTS = ["context"]; // they are changed where their document is

export function Details({ user, memory, changed, asOf, toast }) {
  const top = useRef(null);
  useEffect(() => { if (innerWidth <= NARROW) top.current?.scrollIntoView({ block: "nearest" }); }, [memory?.memory_id]);
  if (!memory) return html`<p class="quiet">${T.choose}</p>`;
  const isPast = asOf !== undefined && asOf !== "";
  return html`<div key=${memory.memory_id}>
    <p ref=${top}><${Tags} memory=${memory} /></p>
    <pre class="content text" dir="auto" tabindex="0" aria-label=${T.content}>${memory.content}</pre>
    ${changed && !isPast && !OF_DOCUMENTS.includes(memory.memory_type) && html`<${Change} ...${{ user, memory, changed, toast }} />`}
    <h3>${T.details}</h3>
    <table><tbody>${FIELDS.filter(isShown(memory)).map(
      (name) => html`<tr key=${name}><th scope="row">${T.fields[name]}</th><td><${Said} text=${shown(name, memory[name])} /></td></tr>`,
    )}</tbody></table>
    <h3>${T.origins}</h3>
    ${memory.origins?.length
      ? html`<ul class="plain">${memory.origins.map((one, at) => html`<li key=${at}>
          <span class=${one.trust === "untrusted" ? "tag bad" : "tag"}>${named(T.trusts, one.trust)}</span>
          <${Said} text=${one.source ?? T.unknownSource} /></li>`)}</ul>`
      : html`<p class="quiet">${T.noOrigin}</p>`}
    ${Object.keys(memory.metadata ?? {}).length > 0 && html`<h3>${T.metadata}</h3><pre class="data" tabindex="0">${json(memory.metadata)}</pre>`}
    ${memory.data !== null && memory.data !== undefined && html`<details><summary>${T.data}</summary><pre class="data" tabindex="0">${json(memory.data)}</pre></details>`}
    ${memory.near_duplicates?.length > 0 && html`<p class="small">${T.nearDuplicates}: ${memory.near_duplicates.join(", ")}</p>`}
    <h3>${T.why}</h3>
    <${Why} user=${user} id=${memory.memory_id} asOf=${asOf} turn=${json(memory)} />
  </div>`;
}

function Why({ user, id, asOf, turn }) {
  const why = useCall("why", { user_id: user, as_of: asOf }, { memory_id: id }, { depends: turn });
  return html`<${Waiting} of=${why} />
    ${why.result && html`<p><${Said} text=${why.result.says} lang="en" /></p>
      <ol class="steps">${why.result.steps.map((step) => html`<li key=${step.position + step.memory_id}>
        <${Said} text=${step.says} lang="en" /><br /><span class="small quiet">${when(step.at, exactly)} · ${T.position(step.position)} · ${step.event}</span>
      </li>`)}</ol>`}`;
}

function Change({ user, memory, changed, toast }) {
  const [text, write] = useState(null);
  const action = useAction();
  const on = { user_id: user };
  useEffect(() => write(null), [memory.content]);
  const save = (event) => {
    event.preventDefault();
    action.run(async () => {
      await call("update", on, { memory_id: memory.memory_id, content: text });
      toast(T.saved);
      changed();
    });
  };
  const pin = () => action.run(async () => {
    await call("update", on, { memory_id: memory.memory_id, pinned: !memory.pinned });
    toast(memory.pinned ? T.unpinned : T.isPinned);
    changed();
  });
  const remove = () => action.run(async () => {
    await call("delete", on, { memory_id: memory.memory_id });
    const undo = ["working", "short_term"].includes(memory.memory_type)
      ? undefined
      : async () => {
          await call("restore", on, { memory_ids: [memory.memory_id] });
          toast(T.restored);
          changed();
        };
    toast(T.deleted, undo);
    changed(true);
  });
  if (text !== null)
    return html`<form onSubmit=${save}>
      <label>${T.content}<textarea dir="auto" value=${text} onInput=${(event) => write(event.target.value)}></textarea></label>
      <div class="row"><button class="main" disabled=${action.busy}>${T.save}</button>
      <button type="button" onClick=${() => write(null)}>${T.cancel}</button></div>
      <${Failed} error=${action.error} />
    </form>`;
  return html`<div class="row">
    ${EDITED.includes(memory.memory_type) && html`<button onClick=${() => write(memory.content)}>${T.edit}</button>`}
    ${PINNED.includes(memory.memory_type) && html`<button disabled=${action.busy} onClick=${pin}>${memory.pinned ? T.unpin : T.pin}</button>`}
    <button class="danger" disabled=${action.busy} onClick=${remove}>${T.remove}</button>
  </div><${Failed} error=${action.error} />`;
}
