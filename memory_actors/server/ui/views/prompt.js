// The prompt: what `context()` gives for a question, each part with its tokens and its reason, and
// what nearly went in.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Empty, Failed, Field, Meter, Said, SaidBy, because, snippet, useAction, when } from "../parts.js";
import { thousandths } from "../language.js";
import { T } from "../texts.js";

const CONSIDERED = 20;
const LEFT_OUT = 5;

function reason(part, hit) {
  if (part.source === "document") return T.becauseDocument;
  if (part.source === "message") return T.becauseMessage;
  const ranked = T.becauseScore(thousandths(part.score));
  const signal = hit?.signals && because(hit.signals);
  return signal ? `${ranked} ${signal}` : ranked;
}

/** A text, and before it its speaker, who may write in the other direction. */
function Spoken({ text }) {
  const [, role, said] = text.match(/^([^:\n]{1,40}): ([^]*)$/) ?? [null, null, text];
  return html`${role && html`<bdi class="who">${role}: </bdi>`}<${Said} text=${said} />`;
}

export default function Prompt({ user, params, set }) {
  const [form, fill] = useState({ q: params.q ?? "", session: params.session ?? "", budget: params.budget ?? "" });
  const [found, find] = useState(null);
  const action = useAction();
  const change = (name) => (value) => fill({ ...form, [name]: value });
  const submit = (event) => {
    event?.preventDefault();
    set(form);
    action.run(async () => {
      const on = { user_id: user };
      const query = form.q;
      const [context, hits] = await Promise.all([
        call("context", on, { query, session_id: form.session, token_budget: form.budget ? Number(form.budget) : undefined }),
        call("retrieve", on, { query, memory_types: ["long_term"], top_k: CONSIDERED, explain: true }),
      ]);
      const here = new Set(context.parts.map((part) => part.memory_id));
      find({
        parts: context.parts, total: context.tokens, byId: new Map(hits.map((hit) => [hit.memory_id, hit])),
        left: hits.filter((hit) => !here.has(hit.memory_id)).slice(0, LEFT_OUT), budget: Number(form.budget),
      });
    });
  };
  useEffect(() => { if (form.q) submit(); }, []); // the address says what is asked
  const ofParts = (found?.parts ?? []).reduce((sum, part) => sum + part.tokens, 0);
  const most = Math.max(1, ...(found?.parts ?? []).map((part) => part.tokens));
  return html`<form onSubmit=${submit}><div class="row">
      <${Field} label=${T.question} value=${form.q} change=${change("q")} type="search" required wide />
      <${Field} label=${T.fields.session_id} value=${form.session} change=${change("session")} placeholder=${T.noSession} />
      <${Field} label=${T.budget} value=${form.budget} change=${change("budget")} type="number" min="1" placeholder=${T.noBudget} />
      <button class="main" disabled=${action.busy}>${T.makePrompt}</button></div></form>
    <${Failed} error=${action.error} />
    ${!found && html`<p class="quiet">${T.promptEmpty}</p>`}
    ${found && !found.parts.length && html`<${Empty} text=${T.promptNothing} link=${T.seeMemories} to=${`#/memories?user=${encodeURIComponent(user)}`} />`}
    ${found?.parts.length > 0 && html`<p role="status">${T.promptSays(found.parts.length, found.total, Math.max(0, found.total - ofParts), found.budget)}</p>
      ${found.budget > 0 && html`<${Meter} calm label=${T.tokenMeter} used=${found.total} limit=${found.budget} />`}
      <ol class="parts">${found.parts.map((part, at) => html`<li key=${at} class="box">
        <p class="small"><span class="tag">${T.sources[part.source] ?? part.source}</span> ${when(part.occurred_at)}
          ${part.held_until && html` · ${T.heldUntil(when(part.held_until))}`}${part.trust === "untrusted" && html` <span class="tag bad">${T.trusts.untrusted}</span>`}</p>
        <p><${Spoken} text=${part.text} /></p>
        <p class="small quiet">${T.why}: ${reason(part, found.byId.get(part.memory_id))}</p>
        <div class="row tight"><span class="small figure">${T.tokensOf(part.tokens)}</span>
          <div class="track"><div class="bar" style=${{ width: `${(100 * part.tokens) / most}%` }}></div></div></div>
      </li>`)}</ol>
      ${found.left.length > 0 && html`<section class="box"><h3>${T.leftOut}</h3><ul class="plain">${found.left.map((hit) => html`<li key=${hit.memory_id}>
        <${Said} text=${snippet(hit.content)} /><p class="small quiet"><${SaidBy} memory=${hit} /> · ${T.fields.score} ${thousandths(hit.score)}${hit.superseded_by && html` · ${T.fates.superseded}`}</p></li>`)}</ul></section>`}`}`;
}
