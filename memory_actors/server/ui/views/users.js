// Users: how full each one's memory is, when it was last written to, and what runs short.

import { html, useRef, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Field, Meter, Said, VirtualList, Waiting, fullness, useCall, when } from "../parts.js";
import { percent } from "../language.js";
import { T } from "../texts.js";

const SHORT = 0.8; // of a limit: the usual threshold of alerts

const quotas = (usage) =>
  Object.entries(usage.kinds).flatMap(([kind, one]) =>
    one.quotas.map((one) => ({ ...one, quota: `${kind}.${one.quota}`, part: one.limit ? one.used / one.limit : 0 })),
  );

export default function Users({ go }) {
  const users = useCall("system.users");
  const [sought, seek] = useState("");
  const known = useRef(new Map()); // what is told of a user, once its row is in sight
  const [, draw] = useState(0);
  const found = (users.result ?? []).filter((id) => id.toLowerCase().includes(sought.toLowerCase()));
  const learn = async (id) => {
    known.current.set(id, {});
    const on = { user_id: id };
    const [usage, latest] = await Promise.all([
      call("usage", on), call("system.events", { ...on, last: 1 }),
    ]);
    known.current.set(id, { usage, at: latest[0]?.recorded_at ?? null });
    draw((turn) => turn + 1);
  };
  const seen = (first, last) => {
    for (const id of found.slice(first, last + 1)) if (!known.current.has(id)) learn(id).catch(() => undefined);
  };
  return html`<div class="box">
    <div class="row"><${Field} label=${T.findUser} value=${sought} change=${seek} type="search" />
    <span class="quiet">${users.result && T.usersCount(found.length)}</span></div>
    <${Waiting} of=${users} />
    ${users.result && html`<${VirtualList}
      count=${found.length} height=${88} label=${T.views.users} seen=${seen}
      choose=${(at) => go("memories", { user: found[at] })}
      row=${(at) => html`<${UserRow} id=${found[at]} told=${known.current.get(found[at])} />`}
    />`}
  </div>`;
}

function UserRow({ id, told }) {
  if (!told?.usage) return html`<b><${Said} text=${id} /></b><span class="small quiet">${T.loading}</span>`;
  const all = quotas(told.usage);
  const fullest = all.reduce((most, one) => (one.part > most.part ? one : most), all[0]);
  const short = all.filter((one) => one.part >= SHORT);
  const count = Object.values(told.usage.kinds).reduce((sum, one) => sum + one.count, 0);
  const full = fullness(fullest);
  return html`<b><${Said} text=${id} /></b>
      ${short.length > 0 && html` <span class="tag bad" title=${short.map((one) => `${fullness(one)} (${percent(one.part)})`).join("\n")}>${T.userAlerts(short.length)}</span>`}
    <span class="small quiet about">${T.memoriesCount(count)} · ${T.userLast}: ${when(told.at)} · ${T.userTier}: ${told.usage.tier}</span>
    <span class="small quiet about">${T.userFullest}: ${full}</span><${Meter} label=${full} used=${fullest.used} limit=${fullest.limit} />`;
}
