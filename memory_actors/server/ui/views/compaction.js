// Compaction: what it has done, what it would do, and the way back from each summary.

import { html, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Card, Failed, Field, Said, Waiting, snippet, useAction, useCall, when } from "../parts.js";
import { bytes, number } from "../language.js";
import { T } from "../texts.js";

const LISTED = 500;

export default function Compaction({ user, toast }) {
  const on = { user_id: user };
  const stats = useCall("system.compaction_stats", on);
  const kept = useCall("list_memories", on, { memory_types: ["long_term", "episodic"], limit: 1000 });
  const [older, ask] = useState("");
  const [report, tell] = useState(null);
  const action = useAction();
  const summaries = (kept.result ?? []).filter((memory) => memory.source === "compressed").slice(0, LISTED);
  const changed = () => { stats.again(); kept.again(); };
  const run = (dryRun) => action.run(async () => {
    tell(await call("system.compact", on, { dry_run: dryRun, older_than: older || undefined }));
    if (!dryRun) changed();
  });
  const told = stats.result;
  // The buttons stand first: what is read later does not move them.
  return html`<section class="box"><h3>${T.wouldDo}</h3>
      <form class="row" onSubmit=${(event) => { event.preventDefault(); run(true); }}>
        <${Field} label=${T.olderThan} value=${older} change=${ask} placeholder="30d" title=${T.olderThanHelp} />
        <button class="main" disabled=${action.busy}>${T.dryRun}</button>
        <button type="button" disabled=${action.busy} onClick=${() => run(false)}>${T.compactNow}</button>
      </form><p class="small quiet">${T.compactSure}</p><${Failed} error=${action.error} />
      ${report && html`<p role="status">${T.clusters(report.clusters.length)}, ${T.ofOriginals(report.originals)}</p>
        <ul class="plain">${report.clusters.map((cluster, at) => html`<li key=${at}>
          <p><span class="tag">${T.outcome[cluster.outcome] ?? cluster.outcome}</span>${T.memoriesCount(cluster.original_count)}, ${when(cluster.time_range_start)} – ${when(cluster.time_range_end)}</p>
          ${cluster.summary && html`<p><${Said} text=${cluster.summary} /></p>`}
          <ul>${cluster.sample.map((text, index) => html`<li key=${index}><${Said} text=${text} /></li>`)}
            ${cluster.original_count > cluster.sample.length && html`<li>${T.andMore(cluster.original_count - cluster.sample.length)}</li>`}</ul>
          ${cluster.reason && html`<p class="bad">${cluster.reason}</p>`}</li>`)}</ul>`}
    </section>
    <section class="box"><h3>${T.compactTitle}</h3><${Waiting} of=${stats} />
      ${told && html`<div class="cards">
        <${Card} name=${T.summaries} value=${number(told.summaries)} /><${Card} name=${T.originals} value=${number(told.originals)} />
        <${Card} name=${T.saved_} value=${bytes(told.bytes_before - told.bytes_after)} />
        <${Card} name=${T.lastRun} value=${when(told.last_run_at)} /><${Card} name=${T.schedule} value=${told.schedule ?? T.onlyAsked} />
      </div>`}</section>
    <section class="box"><h3>${T.compressedList}</h3><${Waiting} of=${kept} />
      ${kept.result && !summaries.length && html`<p class="quiet">${T.none}</p>`}
      <ul class="plain">${summaries.map((memory) => html`<${Summary} key=${memory.memory_id} on=${on} memory=${memory} changed=${changed} toast=${toast} />`)}</ul>
    </section>`;
}

function Summary({ on, memory, changed, toast }) {
  const [originals, show] = useState(null);
  const action = useAction();
  const id = { compressed_id: memory.memory_id };
  const undo = () => action.run(async () => {
    const back = await call("undo_compaction", on, id);
    toast(T.undone(back.length));
    changed();
  });
  return html`<li><p><${Said} text=${snippet(memory.content)} /></p>
    <div class="row"><button disabled=${action.busy} aria-expanded=${originals !== null}
        onClick=${() => (originals ? show(null) : action.run(async () => show(await call("expand", on, id))))}>${T.expand}</button>
      <button disabled=${action.busy} onClick=${undo}>${T.undo}</button></div>
    <${Failed} error=${action.error} />
    ${originals && html`<ul>${originals.map((one) => html`<li key=${one.memory_id}><${Said} text=${snippet(one.content)} /> <span class="small quiet">${when(one.occurred_at)}</span></li>`)}</ul>`}
  </li>`;
}
