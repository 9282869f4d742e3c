// The overview: how much there is and how it grows, how busy and how quick the store is, what room
// is left, and the alerts of users that run short.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Card, Chart, Empty, Failed, HELP, Meter, Said, Waiting, fullness, named, useCall, useEvery, when } from "../parts.js";
import { bytes, ms, number } from "../language.js";
import { T } from "../texts.js";

const EVERY_MS = 5000;
const SAMPLES = 24; // events of the log whose times make the curve of its growth
const SHOWN = 10;
const MINUTE_MS = 60000;
const KEPT_MINUTES = 30;

/** Some events of the log, evenly apart: [time, how many events there were]. */
async function growth(last) {
  const places = [...new Set(Array.from({ length: SAMPLES }, (_, at) => Math.floor((at * (last - 1)) / (SAMPLES - 1))))];
  const found = await Promise.all(places.map((after) => call("system.events", { first: 1 }, { after })));
  return [...found.flat().map((event) => [Date.parse(event.recorded_at), event.position]), [Date.now(), last]];
}

const mean = (calls) => (calls.count ? calls.total_ms / calls.count : 0);

/** The last minutes, those without a call too. */
function minutes(recent) {
  const known = new Map(recent.map((minute) => [Date.parse(minute.at), minute]));
  const now = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
  return Array.from({ length: KEPT_MINUTES }, (_, at) => {
    const time = now - (KEPT_MINUTES - 1 - at) * MINUTE_MS;
    return [time, known.get(time)];
  });
}

export default function Overview({ go }) {
  const now = useEvery(EVERY_MS, () => call("system.statistics"));
  const usage = useCall("system.usage");
  const events = useCall("system.events", { last: 1000 });
  const [curve, draw] = useState(null);
  const last = now.result?.log.last_position;
  useEffect(() => { if (last) growth(last).then(draw, () => draw([])); }, [last]);
  const alerts = (events.result ?? []).filter((one) => one.event === "account.alert_changed" && one.data.level).reverse();
  if (usage.result?.users === 0) return html`<${Empty} text=${T.noUsers} link=${T.howToAdd} to=${HELP.add} />`;
  const memories = Object.values(usage.result?.counts ?? {}).reduce((sum, count) => sum + count, 0);
  const past = minutes(now.result?.recent ?? []);
  const [searches, writes] = ["searches", "writes"].map((name) => past.map(([at, minute]) => [at, minute?.[name]?.count ?? 0]));
  const speed = past.filter(([, minute]) => minute?.searches?.count).map(([at, minute]) => [at, mean(minute.searches)]);
  const slowest = past.findLast(([, minute]) => minute?.searches?.count)?.[1].searches.slowest_ms;
  const slow = Object.values(now.result?.latency_violations ?? {}).reduce((sum, count) => sum + count, 0);
  return html`<${Failed} error=${now.error} /><${Waiting} of=${usage} />
    <div class="cards">
      <${Card} name=${T.views.users} value=${number(usage.result?.users ?? 0)} /><${Card} name=${T.views.memories} value=${number(memories)} />
      <${Card} name=${T.searchesNow} value=${number(searches.at(-1)[1])} /><${Card} name=${T.searchTime} value=${speed.length ? ms(speed.at(-1)[1]) : T.noFigure} more=${slowest && T.atMost(ms(slowest))} />
      <${Card} name=${T.logBytes} value=${bytes(now.result?.log.used_bytes ?? 0)} /><${Card} name=${T.processMemory} value=${bytes(now.result?.memory.current_bytes ?? 0)} />
      <${Card} name=${T.slow} value=${number(slow)} /><${Card} name=${T.alertsPosted} value=${number(now.result?.alerts.posted ?? 0)} />
    </div>
    <div class="charts">
      <section class="box"><${Chart} title=${T.growthChart} points=${curve ?? []} /></section>
      <section class="box"><${Chart} title=${T.searchesChart} points=${searches} /></section>
      <section class="box"><${Chart} title=${T.writesChart} points=${writes} /></section>
      <section class="box"><${Chart} title=${T.searchTimeChart} points=${speed} format=${ms} /></section>
    </div>
    <div class="split even">
      <section class="box"><h3>${T.roomTitle}</h3>${(usage.result?.quotas ?? []).map((one) => {
        const said = fullness(one);
        return html`<div key=${one.quota}><span class="small">${said}</span><${Meter} label=${said} used=${one.used} limit=${one.limit} /></div>`;
      })}</section>
      <section class="box"><h3>${T.alertsTitle}</h3><${Waiting} of=${events} />
        ${events.result && !alerts.length && html`<p class="quiet">${T.noAlerts}</p>`}
        <ul class="plain">${alerts.slice(0, SHOWN).map((one) => html`<li key=${one.position}>
          <span class=${one.data.level === "critical" ? "tag bad" : "tag"}>${named(T.levels, one.data.level)}</span>
          <button class="link" onClick=${() => go("memories", { user: one.user_id })}><${Said} text=${one.user_id} /></button>
          <span class="small"> ${fullness(one.data)} · ${when(one.recorded_at)}</span></li>`)}</ul>
      </section>
    </div>`;
}
