// The graph: entities and how they are related, at a moment that a slider moves. Names and relations
// push each other away, so that no label covers another.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Details } from "../details.js";
import { Empty, HELP, Said, VirtualList, Waiting, useLoaded, when } from "../parts.js";
import { T } from "../texts.js";

const PAGE = 1000;
const DRAWN = 60; // more relationships than this nobody can read
const STEPS = 1000;
const PILL = 28; // pixels: the height of a node
const pill = (node) => node.w - 20;
const ROUNDS = 200; // in which everything moves; then boxes only make room for each other
const LAST = 400;
const LETTER = 7; // pixels; letters of wide scripts take two
const LONGEST = 22; // letters of a label
const ZOOMS = [0.5, 0.75, 1, 1.5, 2];

/** All entities and relationships of a user, as `list_memories` has them. */
async function read(user) {
  const all = [];
  for (let offset = 0; ; offset += PAGE) {
    const page = await call("list_memories", { user_id: user }, { memory_types: ["entity"], limit: PAGE, offset });
    all.push(...page);
    if (page.length < PAGE) break;
  }
  const isEdge = (memory) => memory.data && "source_id" in memory.data;
  return {
    nodes: all.filter((memory) => !isEdge(memory)),
    edges: all.filter(isEdge).map(({ data, memory_id }) => ({ ...data, memory_id, relation: data.relation.replaceAll("_", " ") })),
  };
}

const time = (iso) => (iso ? Date.parse(iso) : null);
const holds = (edge, at) => (time(edge.valid_from) ?? -Infinity) <= at && (edge.valid_to === null || edge.valid_to === undefined || at < time(edge.valid_to));
const lettersOf = (text) => [...text].reduce((sum, letter) => sum + (letter > "\u1100" ? 2 : 1), 0);
const short = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

/** Places for the labels of nodes and edges: springs along the edges, boxes that do not overlap. */
export function layout(nodes, edges) {
  const bodies = [
    ...nodes.map((node) => ({ id: node.memory_id, label: short(node.data.name), isNode: true })),
    ...edges.map((edge) => ({ id: edge.memory_id, label: short(edge.relation), edge })),
  ].map((body, at) => {
    const angle = at * 2.4; // the golden angle: no two begin at the same place
    const far = 40 * Math.sqrt(at + 1);
    return { ...body, x: far * Math.cos(angle), y: far * Math.sin(angle), w: lettersOf(body.label) * LETTER + 44, h: body.isNode ? 54 : 34 };
  });
  const place = new Map(bodies.map((body) => [body.id, body]));
  const springs = bodies.filter((body) => body.edge).flatMap((body) => [[body, place.get(body.edge.source_id)], [body, place.get(body.edge.target_id)]]);
  let isCrowded = true;
  for (let round = 0; round < ROUNDS || (isCrowded && round < LAST); round += 1) {
    const heat = Math.max(0, 1 - round / ROUNDS);
    isCrowded = false;
    for (let i = 0; i < bodies.length; i += 1) {
      for (let j = i + 1; j < bodies.length; j += 1) {
        const [a, b] = [bodies[i], bodies[j]];
        const [dx, dy] = [b.x - a.x || 0.1, b.y - a.y || 0.1];
        const push = (heat * (a.isNode && b.isNode ? 450 : 70)) / (dx * dx + dy * dy + 100);
        let [px, py] = [dx * push, dy * push];
        const [overX, overY] = [(a.w + b.w) / 2 - Math.abs(dx), (a.h + b.h) / 2 - Math.abs(dy)];
        if (overX > 0 && overY > 0) {
          isCrowded = true;
          if (overX < overY) px = (Math.sign(dx) * overX) / 2 + px * heat;
          else py = (Math.sign(dy) * overY) / 2 + py * heat;
        }
        a.x -= px; a.y -= py; b.x += px; b.y += py;
      }
    }
    for (const [a, b] of springs) {
      const [dx, dy] = [(b.x - a.x) * 0.08 * heat, (b.y - a.y) * 0.08 * heat];
      a.x += dx; a.y += dy; b.x -= dx; b.y -= dy;
    }
    for (const body of bodies) { body.x *= 1 - 0.03 * heat; body.y *= 1 - 0.03 * heat; }
  }
  return place;
}

/** The newest relationships, those of the chosen entity first, and the entities that they join. */
function chosenPart({ nodes, edges }, chosen) {
  const touches = (edge) => edge.source_id === chosen || edge.target_id === chosen;
  const shown = [...edges.filter(touches), ...edges.filter((edge) => !touches(edge))].slice(0, DRAWN);
  const joined = new Set(shown.flatMap((edge) => [edge.source_id, edge.target_id]));
  const alone = nodes.filter((node) => !joined.has(node.memory_id)).slice(0, Math.max(0, DRAWN - joined.size));
  return { nodes: [...nodes.filter((node) => joined.has(node.memory_id)), ...alone], edges: shown };
}

export default function Graph({ user, params, set, toast }) {
  const loaded = useLoaded(() => read(user), [user]);
  const graph = loaded.result;
  const [step, move] = useState(STEPS);
  const [chosen, choose] = useState(params.id ?? null);
  const span = useMemo(() => {
    const times = (graph?.edges ?? []).flatMap((edge) => [time(edge.valid_from), time(edge.valid_to)]).filter(Number.isFinite);
    return times.length ? [Math.min(...times), Math.max(Date.now(), ...times)] : null;
  }, [graph]);
  if (!graph) return html`<${Waiting} of=${loaded} />`;
  if (!graph.nodes.length) return html`<${Empty} text=${T.graphEmpty} link=${T.howToAdd} to=${HELP.add} />`;
  const at = span ? span[0] + ((span[1] - span[0]) * step) / STEPS : Date.now();
  const known = new Set(graph.nodes.map((node) => node.memory_id));
  const edges = graph.edges.filter((edge) => holds(edge, at) && known.has(edge.source_id) && known.has(edge.target_id));
  const part = chosenPart({ nodes: graph.nodes, edges }, edges.length > DRAWN ? chosen : null);
  const open = (id) => { choose(id); set({ id }); };
  const row = (edge) => html`<span class="text"><bdi>${edge.source}</bdi> — <bdi>${edge.relation}</bdi> → <bdi>${edge.target}</bdi></span>
    <span class="small quiet">${T.validFrom} ${when(edge.valid_from)} · ${edge.valid_to ? `${T.validTo} ${when(edge.valid_to)}` : T.stillValid}</span>`;
  return html`<p class="quiet" role="status">${T.graphTitle(graph.nodes.length, edges.length)} ${edges.length > DRAWN && T.graphLarge(DRAWN)}</p>
    ${span && html`<label>${T.graphAt}: ${when(at)}<input type="range" min="0" max=${STEPS} value=${step}
      aria-valuetext=${when(at)} onInput=${(event) => move(Number(event.target.value))} /></label>`}
    <div class="split"><${Drawing} ...${part} chosen=${chosen} choose=${open} />
      <section class="box aside" tabindex="0" aria-label=${T.details}><${Entity} key=${chosen} ...${{ user, edges, chosen, open, toast }} /></section></div>
    <h3>${T.graphList}</h3>
    <${VirtualList} short count=${edges.length} height=${52} label=${T.graphList} choose=${(index) => open(edges[index].source_id)} row=${(index) => row(edges[index])} />`;
}

function Entity({ user, edges, chosen, open, toast }) {
  const memory = useLoaded(() => (chosen ? call("get", { user_id: user }, { memory_id: chosen }) : Promise.resolve(null)), [chosen]);
  if (!chosen) return html`<p class="quiet">${T.graphHelp}</p>`;
  const near = edges.filter((edge) => edge.source_id === chosen || edge.target_id === chosen);
  return html`<h3>${T.neighbours}</h3>
    ${!near.length && html`<p class="quiet">${T.noNeighbours}</p>`}
    <ul class="plain">${near.map((edge) => {
      const isOut = edge.source_id === chosen;
      return html`<li key=${edge.memory_id}>${isOut ? "→" : "←"} <bdi class="tag">${edge.relation}</bdi>
        <button class="link" onClick=${() => open(isOut ? edge.target_id : edge.source_id)}><${Said} text=${isOut ? edge.target : edge.source} /></button></li>`;
    })}</ul><${Waiting} of=${memory} />${memory.result && html`<${Details} user=${user} memory=${memory.result} toast=${toast} />`}`;
}

function Drawing({ nodes, edges, chosen, choose }) {
  const [zoom, scale] = useState(ZOOMS.indexOf(1));
  const key = [...nodes, ...edges].map((one) => one.memory_id).join(" ");
  const place = useMemo(() => layout(nodes, edges), [key]);
  const all = [...place.values()];
  const [left, top] = [Math.min(...all.map((one) => one.x - one.w / 2)) - 10, Math.min(...all.map((one) => one.y - one.h / 2)) - 10];
  const [wide, high] = [Math.max(...all.map((one) => one.x + one.w / 2)) + 10 - left, Math.max(...all.map((one) => one.y + one.h / 2)) + 10 - top];
  const box = useRef(null);
  useEffect(() => { // begin in the middle
    box.current.scrollLeft = (box.current.scrollWidth - box.current.clientWidth) / 2;
    box.current.scrollTop = (box.current.scrollHeight - box.current.clientHeight) / 2;
  }, [key, zoom]);
  const near = new Set(edges.filter((edge) => edge.source_id === chosen || edge.target_id === chosen).flatMap((edge) => [edge.memory_id, edge.source_id, edge.target_id]));
  const shade = (id) => (chosen && place.has(chosen) && id !== chosen && !near.has(id) ? "dim" : "");
  const onKeyDown = (id) => (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(id);
  };
  return html`<div><div class="row tight">
      <button aria-label=${T.zoomOut} disabled=${zoom === 0} onClick=${() => scale(zoom - 1)}>−</button>
      <button aria-label=${T.zoomIn} disabled=${zoom === ZOOMS.length - 1} onClick=${() => scale(zoom + 1)}>+</button></div>
    <div class="graph" ref=${box} tabindex="0" role="group" aria-label=${T.graphTitle(nodes.length, edges.length)}>
    <svg width=${wide * ZOOMS[zoom]} height=${high * ZOOMS[zoom]} viewBox=${`${left} ${top} ${wide} ${high}`}>
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" /></marker></defs>
      ${edges.map((edge) => {
        const [a, m, b] = [edge.source_id, edge.memory_id, edge.target_id].map((id) => place.get(id));
        const [cx, cy] = [2 * m.x - (a.x + b.x) / 2, 2 * m.y - (a.y + b.y) / 2]; // the curve goes through the label
        const [dx, dy] = [b.x - cx, b.y - cy];
        const back = Math.min(1, (pill(b) / 2 + 3) / Math.abs(dx || 0.1), (PILL / 2 + 3) / Math.abs(dy || 0.1)); // the arrow ends at the rim
        return html`<path key=${edge.memory_id} class=${`edge ${shade(edge.memory_id)}`} marker-end="url(#arrow)"
          d=${`M${a.x} ${a.y}Q${cx} ${cy} ${b.x - dx * back} ${b.y - dy * back}`} />`;
      })}
      ${edges.map((edge) => { const m = place.get(edge.memory_id);
        return html`<text key=${edge.memory_id} class=${`relation ${shade(edge.memory_id)}`} x=${m.x} y=${m.y + 4}>${m.label}</text>`; })}
      ${nodes.map((node) => { const n = place.get(node.memory_id);
        return html`<g key=${node.memory_id} class=${`node ${node.memory_id === chosen ? "chosen" : ""} ${shade(node.memory_id)}`} role="button" tabindex="0"
          aria-label=${node.data.name} aria-pressed=${node.memory_id === chosen} onClick=${() => choose(node.memory_id)} onKeyDown=${onKeyDown(node.memory_id)}>
          <title>${node.data.name}</title><rect x=${n.x - pill(n) / 2} y=${n.y - PILL / 2} width=${pill(n)} height=${PILL} rx=${PILL / 2} /><text x=${n.x} y=${n.y + 4}>${n.label}</text></g>`; })}
    </svg></div></div>`;
}
