// The context document: its entries, how many tokens they take, its archive and its history.

import { html, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Failed, Field, Meter, Said, Select, Waiting, snippet, useAction, useCall, when } from "../parts.js";
import { T } from "../texts.js";
import { gist } from "./timeline.js";

export default function Context({ user, params, set, toast }) {
  const [name, choose] = useState(params.document ?? "");
  const documents = useCall("context.documents", { user_id: user });
  const names = (documents.result ?? []).map((one) => one.name);
  const shown = names.includes(name) ? name : names[0];
  // Elements that appear and disappear are below the clicked ones: nothing moves from under the pointer.
  // One root: Preact would move a first sibling behind what comes later.
  return html`<div><div class="row">
      ${names.length > 0 && html`<${Select} label=${T.document} value=${shown} options=${names.map((one) => [one, one])}
        change=${(value) => { choose(value); set({ document: value }); }} />`}
      <${NewDocument} user=${user} made=${(made) => { choose(made); documents.again(); }} />
    </div>
    <${Waiting} of=${documents} />
    ${documents.result && !names.length && html`<p class="quiet">${T.noDocuments}</p>`}
    ${shown && html`<${Document} key=${shown} user=${user} name=${shown} toast=${toast} />`}</div>`;
}

function NewDocument({ user, made }) {
  const [name, write] = useState("");
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => { await call("context.create", { user_id: user }, { name }); write(""); made(name); });
  };
  return html`<form class="row" onSubmit=${submit}><${Field} label=${T.newDocument} placeholder=${T.documentName} value=${name} change=${write} required />
    <button disabled=${action.busy}>${T.makeDocument}</button><${Failed} error=${action.error} /></form>`;
}

function Document({ user, name, toast }) {
  const on = { user_id: user, document: name };
  const size = useCall("context.size", on);
  const entries = useCall("context.entries", on);
  const archived = useCall("context.archived", on);
  const events = useCall("system.events", { user_id: user, last: 1000 });
  const action = useAction();
  const change = (operation, args, said = T.saved) => action.run(async () => {
    const receipt = await call(operation, on, args);
    for (const one of [size, entries, archived, events]) one.again();
    toast(receipt.warning ?? said);
    return receipt;
  });
  const history = (events.result ?? []).filter((one) => one.event.startsWith("context.")).reverse();
  const sections = [...new Set((entries.result ?? []).map((one) => one.section))];
  return html`<div class="split"><section class="box" aria-label=${T.document}>
      ${size.result && html`<p class="small">${T.tokens(size.result.tokens, size.result.soft_limit, size.result.hard_limit)}</p>
        <${Meter} label=${T.tokenMeter} used=${size.result.tokens} limit=${size.result.hard_limit} />`}
      <${Waiting} of=${size} /><${Waiting} of=${entries} /><${Failed} error=${action.error} />
      <ul class="plain">${(entries.result ?? []).map((entry) => html`<${Entry} key=${entry.entry_id} entry=${entry} change=${change} />`)}</ul>
      <${AddEntry} sections=${sections} change=${change} />
    </section>
    <section class="box" aria-label=${T.archived}><h3>${T.archived}</h3>
      <button disabled=${action.busy} onClick=${() => change("context.archive", {})}>${T.archiveStale}</button>
      <${Waiting} of=${archived} />
      ${archived.result && !archived.result.length && html`<p class="quiet">${T.archivedNone}</p>`}
      <ul class="plain">${(archived.result ?? []).map((entry) => html`<li key=${entry.entry_id}><${Said} text=${snippet(entry.text)} />
        <button onClick=${() => change("context.restore", { entry_ids: [entry.entry_id] })}>${T.restore}</button></li>`)}</ul>
      <h3>${T.history}</h3><${Waiting} of=${events} />
      <ol class="steps">${history.slice(0, 50).map((one) => html`<li key=${one.position}><span class="tag">${one.event}</span>
        <span class="small quiet">${when(one.recorded_at)}</span><br /><${Said} text=${gist(one.data)} /></li>`)}</ol>
    </section></div>`;
}

function Entry({ entry, change }) {
  const [text, write] = useState(null);
  const id = { entry_id: entry.entry_id };
  const save = (event) => {
    event.preventDefault();
    change("context.edit", { ...id, text }).then((receipt) => receipt && write(null));
  };
  if (text !== null)
    return html`<li><form onSubmit=${save}><label>${T.entryText}<textarea dir="auto" value=${text} onInput=${(event) => write(event.target.value)}></textarea></label>
      <div class="row"><button class="main">${T.save}</button><button type="button" onClick=${() => write(null)}>${T.cancel}</button></div></form></li>`;
  return html`<li><p><bdi class="tag">${entry.section}</bdi>${entry.pinned && html`<span class="tag">${T.pinned}</span>`}<${Said} text=${entry.text} /></p>
    <div class="row">
      <button onClick=${() => write(entry.text)}>${T.edit}</button>
      <button onClick=${() => change("context.pin", { entry_ids: [entry.entry_id], pinned: !entry.pinned })}>${entry.pinned ? T.unpin : T.pin}</button>
      <button onClick=${() => change("context.archive", { entry_ids: [entry.entry_id] })}>${T.archive}</button>
      <button class="danger" onClick=${() => change("context.remove", id, T.deleted)}>${T.remove}</button>
    </div></li>`;
}

function AddEntry({ sections, change }) {
  const [section, choose] = useState("");
  const [text, write] = useState("");
  const submit = (event) => {
    event.preventDefault();
    change("context.add", { section, text }).then((receipt) => receipt && write(""));
  };
  return html`<h3>${T.addEntry}</h3><form onSubmit=${submit}>
    <${Field} label=${T.section} value=${section} change=${choose} list="sections" required />
    <datalist id="sections">${sections.map((one) => html`<option key=${one} value=${one} />`)}</datalist>
    <label>${T.entryText}<textarea required dir="auto" value=${text} onInput=${(event) => write(event.target.value)}></textarea></label>
    <p><button class="main">${T.add}</button></p></form>`;
}
