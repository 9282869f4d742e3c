// Health: what the store holds, what the process does, and whether the log is whole.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Card, Chart, Failed, Waiting, named, useAction, useCall, useEvery } from "../parts.js";
import { bytes, number } from "../language.js";
import { T } from "../texts.js";

const EVERY_MS = 2000;
const KEPT = 150; // readings: five minutes

/** The statistics, read again and again, and the events a second between two readings. */
function useReadings() {
  const { result: now, error } = useEvery(EVERY_MS, () => call("system.statistics"));
  const [readings, note] = useState([]);
  useEffect(() => { if (now) note((before) => [...before, [Date.now(), now.log.last_position]].slice(-KEPT)); }, [now]);
  const rates = readings.slice(1).map(([at, position], place) => [at, ((position - readings[place][1]) * 1000) / (at - readings[place][0])]);
  return { now, rates, error };
}

export default function Health() {
  const { now, rates, error } = useReadings();
  const usage = useCall("system.usage");
  return html`<section class="box"><h3>${T.statistics}</h3><${Failed} error=${error} />
      ${now && html`<div class="cards">
        <${Card} name=${T.logPosition} value=${number(now.log.last_position)} /><${Card} name=${T.logBytes} value=${bytes(now.log.used_bytes)} />
        <${Card} name=${T.actors} value=${number(now.runtime.live)} /><${Card} name=${T.actorsBytes} value=${bytes(now.runtime.live_bytes)} />
        <${Card} name=${T.processMemory} value=${bytes(now.memory.current_bytes)} /><${Card} name=${T.processPeak} value=${bytes(now.memory.peak_bytes)} />
        <${Card} name=${T.vectors} value=${number(now.embeddings.computed)} /><${Card} name=${T.vectorsWaiting} value=${number(now.embeddings.waiting)} />
        <${Card} name=${T.notIndexed} value=${number(now.passages_wanting)} /><${Card} name=${T.alertsPosted} value=${number(now.alerts.posted)} />
        <${Card} name=${T.alertsFailed} value=${number(now.alerts.failed)} />
      </div>`}
      <${Chart} title=${T.chartTitle} points=${rates} /></section>
    <div class="split even"><section class="box"><h3>${T.usage}</h3><${Waiting} of=${usage} />
      ${usage.result && html`<p>${T.usersCount(usage.result.users)}</p><div class="scroll" tabindex="0" role="region" aria-label=${T.usage}><table class="lined"><thead><tr><th scope="col">${T.kind}</th>
        <th scope="col">${T.views.memories}</th><th scope="col">${T.sizes}</th></tr></thead><tbody>
        ${Object.entries(usage.result.counts).map(([kind, count]) => html`<tr key=${kind}><th scope="row">${named(T.kinds, kind)}</th>
          <td>${number(count)}</td><td>${bytes(usage.result.stored_bytes[kind] ?? 0)}</td></tr>`)}</tbody></table></div>`}
    </section>
    <section class="box"><${Verify} />
      <h3>${T.slowCalls}</h3>${now && html`<${Slow} violations=${now.latency_violations} />`}</section></div>`;
}

const Slow = ({ violations }) => {
  const rows = Object.entries(violations).filter(([, count]) => count > 0);
  if (!rows.length) return html`<p class="quiet">${T.noSlow}</p>`;
  return html`<table><tbody>${rows.map(([kind, count]) => html`<tr key=${kind}><th scope="row">${named(T.kinds, kind)}</th><td class="figure">${number(count)}</td></tr>`)}</tbody></table>`;
};

function Verify() {
  const action = useAction();
  const [report, tell] = useState(null);
  return html`<h3>${T.verify}</h3><p class="small quiet">${T.verifyHelp}</p>
    <button disabled=${action.busy} onClick=${() => action.run(async () => tell(await call("system.verify")))}>${action.busy ? T.loading : T.verify}</button>
    <${Failed} error=${action.error} />
    ${report && !report.findings.length && html`<p class="good" role="status">${T.verified(report.events)}</p>`}
    ${report?.findings.length > 0 && html`<p class="bad" role="alert">${T.verifyFailed}</p><pre class="data" tabindex="0">${JSON.stringify(report.findings, null, 2)}</pre>`}`;
}
