// The graph: entities and how they are related, at a moment that a slider moves.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { call } from "../api.js";
import { Failed, Said, VirtualList, when } from "../parts.js";
import { T } from "../texts.js";

const PAGE = 1000;
const DRAWN = 400; // more edges than this are a ball of wool
const STEPS = 1000;

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
    edges: all.filter(isEdge).map((memory) => ({ ...memory.data, memory_id: memory.memory_id })),
  };
}

const time = (iso) => (iso ? Date.parse(iso) : null);
const holds = (edge, at) => (time(edge.valid_from) ?? -Infinity) <= at && (edge.valid_to === null || edge.valid_to === undefined || at < time(edge.valid_to));

export default function Graph({ user, go }) {
  const [graph, know] = useState(null);
  const [error, fail] = useState(null);
  const [step, move] = useState(STEPS);
  useEffect(() => { read(user).then(know, fail); }, [user]);
  const span = useMemo(() => {
    const times = (graph?.edges ?? []).flatMap((edge) => [time(edge.valid_from), time(edge.valid_to)]).filter(Number.isFinite);
    return times.length ? [Math.min(...times), Math.max(Date.now(), ...times)] : null;
  }, [graph]);
  if (error) return html`<${Failed} error=${error} />`;
  if (!graph) return html`<p class="quiet" role="status">${T.loading}</p>`;
  if (!graph.nodes.length) return html`<p class="quiet">${T.graphEmpty}</p>`;
  const at = span ? span[0] + ((span[1] - span[0]) * step) / STEPS : Date.now();
  const edges = graph.edges.filter((edge) => holds(edge, at));
  const shown = edges.slice(0, DRAWN);
  return html`<p class="quiet" role="status">${T.graphTitle(graph.nodes.length, edges.length)} ${edges.length > DRAWN && T.graphLarge(DRAWN)}</p>
    ${span && html`<label>${T.graphAt}: ${when(at)}<input type="range" min="0" max=${STEPS} value=${step}
      aria-valuetext=${when(at)} onInput=${(event) => move(Number(event.target.value))} /></label>`}
    <${Drawing} nodes=${graph.nodes.slice(0, DRAWN)} edges=${shown} open=${(id) => go("memories", { kind: "entity", id })} />
    <p class="small quiet">${T.graphHelp}</p><h3>${T.graphList}</h3>
    <${VirtualList} short count=${edges.length} height=${52} label=${T.graphList}
      choose=${(index) => go("memories", { kind: "entity", id: edges[index].memory_id })}
      row=${(index) => html`<${Said} text=${`${edges[index].source} — ${edges[index].relation} → ${edges[index].target}`} />
        <span class="small quiet">${T.validFrom} ${when(edges[index].valid_from)} · ${edges[index].valid_to ? `${T.validTo} ${when(edges[index].valid_to)}` : T.stillValid}</span>`} />`;
}

function Drawing({ nodes, edges, open }) {
  const box = useRef(null);
  const drawn = useRef(null);
  const key = edges.map((edge) => edge.memory_id).join(" ");
  useEffect(() => {
    let isOn = true;
    import("../vendor/cytoscape.js").then(({ default: cytoscape }) => {
      if (!isOn) return;
      const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
      drawn.current = cytoscape({
        container: box.current,
        maxZoom: 2,
        elements: [
          ...nodes.map((memory) => ({ data: { id: memory.memory_id, label: memory.data.name } })),
          ...edges.filter((edge) => nodes.some((node) => node.memory_id === edge.source_id) && nodes.some((node) => node.memory_id === edge.target_id))
            .map((edge) => ({ data: { id: edge.memory_id, source: edge.source_id, target: edge.target_id, label: edge.relation } })),
        ],
        style: [
          { selector: "node", style: { label: "data(label)", color: colour("--text"), "background-color": colour("--bar"), "font-size": 11, "text-wrap": "ellipsis", "text-max-width": 120, width: 18, height: 18 } },
          { selector: "edge", style: { label: "data(label)", color: colour("--quiet"), "font-size": 9, width: 1.5, "line-color": colour("--line"), "target-arrow-color": colour("--line"), "target-arrow-shape": "triangle", "curve-style": "bezier", "text-rotation": "autorotate" } },
        ],
        layout: { name: nodes.length > 150 ? "concentric" : "cose", idealEdgeLength: () => 110, animate: false, randomize: false, padding: 20 },
      });
      drawn.current.on("tap", "node", (event) => open(event.target.id()));
    });
    return () => { isOn = false; drawn.current?.destroy(); drawn.current = null; };
  }, [nodes.length]);
  useEffect(() => {
    const graph = drawn.current;
    if (!graph) return;
    const here = new Set(edges.map((edge) => edge.memory_id));
    graph.batch(() => {
      graph.edges().filter((edge) => !here.has(edge.id())).remove();
      for (const edge of edges) {
        if (graph.getElementById(edge.memory_id).empty() && graph.getElementById(edge.source_id).nonempty() && graph.getElementById(edge.target_id).nonempty())
          graph.add({ data: { id: edge.memory_id, source: edge.source_id, target: edge.target_id, label: edge.relation } });
      }
    });
  }, [key]);
  return html`<div class="graph" ref=${box} role="img" aria-label=${T.graphTitle(nodes.length, edges.length)}></div>`;
}
