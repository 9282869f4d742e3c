// The page: the key, the views, whose memory is looked at, light and dark.

import { html, render, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { call, keptKey, ownKey, useKey } from "./api.js";
import { Empty, Failed, HELP, useAction } from "./parts.js";
import { LANGUAGES, chooseLanguage, language } from "./language.js";
import { T } from "./texts.js";

const VIEWS = Object.keys(T.views);
const OF_ALL = ["overview", "users", "health"]; // they are about nobody in particular, and need a root key

/** The address behind the #: #/view?user=…&id=… */
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const params = Object.fromEntries(new URLSearchParams(query));
  return { view: VIEWS.includes(path) ? path : null, params };
}

const address = (view, params) => {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== "");
  return `#/${view}?${new URLSearchParams(given)}`;
};

/** The key in the address, which may say behind it where to begin: #key=…#/search?… */
function givenKey() {
  const found = location.hash.match(/^#key=(ma_[0-9a-f_]+)(#\/.*)?$/);
  // It is not left where others look.
  if (found) history.replaceState(null, "", location.pathname + (found[2] ?? ""));
  return found?.[1] ?? null;
}

function SignIn({ enter }) {
  const [text, write] = useState("");
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(() => enter(text.trim()));
  };
  return html`<main id="content"><form class="box key" onSubmit=${submit}>
    <h2>${T.signIn}</h2>
    <label>${T.keyLabel}<input type="password" autocomplete="off" required value=${text}
      aria-describedby="key-help" onInput=${(event) => write(event.target.value)} /></label>
    <p id="key-help" class="small quiet">${T.keyHelp}</p>
    <button class="main" disabled=${action.busy}>${T.keyOpen}</button>
    <${Failed} error=${action.error} />
  </form></main>`;
}

function UserPicker({ user, users, offer, go }) {
  const [text, write] = useState(user ?? "");
  useEffect(() => write(user ?? ""), [user]);
  const submit = (event) => {
    event.preventDefault();
    if (text) go(text);
  };
  return html`<form onSubmit=${submit}><label class="check">${T.user}<input
    list="users" dir="auto" value=${text} onInput=${(event) => write(event.target.value)} onChange=${submit} onFocus=${offer} />
    <datalist id="users">${users.slice(0, 500).map((id) => html`<option key=${id} value=${id} />`)}</datalist>
  </label></form>`;
}

function Toast({ told, close }) {
  useEffect(() => {
    const timer = setTimeout(close, told.undo ? 12000 : 4000);
    return () => clearTimeout(timer);
  }, [told]);
  return html`<div class="toast" role="status">${told.text}
    ${told.undo && html`<button onClick=${() => { close(); told.undo(); }}>${T.undo}</button>`}
    <button onClick=${close}>${T.close}</button></div>`;
}

const icon = (path) => html`<svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" fill="none"
  stroke="currentColor" stroke-width="2" stroke-linecap="round"><path d=${path} /></svg>`;
const ICONS = {
  light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5",
  dark: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.500 10.500z",
  leave: "M14 4H6v16h8M10 12h11M18 8l4 4-4 4",
};

const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;

function Page() {
  const [me, know] = useState(null);
  const [key] = useState(() => givenKey() ?? keptKey());
  const [users, list] = useState(null);
  const [at, move] = useState(route());
  const [View, draw] = useState({});
  const [told, tell] = useState(null);
  const [theme, paint] = useState(localStorage.getItem("theme") ?? (isDark() ? "dark" : "light"));
  const heading = useRef(null);
  useEffect(() => {
    const onHash = () => move(route());
    addEventListener("hashchange", onHash);
    return () => removeEventListener("hashchange", onHash);
  }, []);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
  }, [theme]);
  const enter = async (key) => {
    useKey(key);
    try {
      const found = await ownKey();
      if (found.scope === "root") list(await call("system.users"));
      know(found);
    } catch (error) {
      if (error.status === 401) useKey(null);
      throw error;
    }
  };
  const offer = () => call("system.users").then(list, () => undefined); // others have come since
  const leave = () => { useKey(null); know(null); };
  const [begun, begin] = useState(false);
  useEffect(() => {
    (key ? enter(key) : Promise.resolve()).catch(() => undefined).finally(() => begin(true));
  }, []);
  const isRoot = me?.scope === "root";
  const views = VIEWS.filter((view) => isRoot || !OF_ALL.includes(view));
  const view = views.includes(at.view) ? at.view : views[0];
  const user = isRoot ? at.params.user ?? (users?.length === 1 ? users[0] : undefined) : me?.user_id;
  useEffect(() => {
    if (!me) return;
    let isLast = true;
    import(`./views/${view}.js`).then((module) => isLast && draw({ view, Of: module.default }));
    tell(null);
    document.title = `${T.views[view]} · ${T.title}`;
    return () => { isLast = false; };
  }, [me, view]);
  const go = (to, params = {}) => { location.hash = address(to, { user, ...params }); };
  const set = (params) => { // unless somebody has left meanwhile
    if ((route().view ?? view) === view) history.replaceState(null, "", address(view, { user, ...params }));
  };
  const toast = (text, undo) => tell({ text, undo });
  const head = html`<a class="skip" href="#content" onClick=${(event) => { event.preventDefault(); heading.current?.focus(); }}>${T.skip}</a>
    <header><h1>${T.title}</h1>
      ${me && (isRoot
        ? html`<${UserPicker} ...${{ user, users: users ?? [], offer }} go=${(id) => go(OF_ALL.includes(view) ? "memories" : view, { user: id })} />`
        : html`<span>${T.user}: <b dir="auto">${user}</b></span>`)}
      <span class="room"></span>
      ${me && html`<span class="quiet small">${me.version}</span>`}
      <select class="small" aria-label=${T.language} onChange=${(event) => chooseLanguage(event.target.value)}>${Object.entries(LANGUAGES).map(
        ([name, own]) => html`<option key=${name} value=${name} lang=${name} selected=${name === language}>${own}</option>`)}</select>
      <button class="icon" aria-label=${T.theme} title=${T.theme} aria-pressed=${theme === "dark"}
        onClick=${() => paint(theme === "dark" ? "light" : "dark")}>${icon(ICONS[theme === "dark" ? "light" : "dark"])}</button>
      ${me && html`<button class="icon" aria-label=${T.leave} title=${T.leave} onClick=${leave}>${icon(ICONS.leave)}</button>`}
    </header>`;
  if (!me) return html`${head}${begun && html`<${SignIn} enter=${enter} />`}`;
  const isReady = View.view === view;
  return html`${head}
    <nav aria-label=${T.main}><ul>${views.map((name) => html`<li key=${name}><a
      href=${address(name, { user })} aria-current=${name === view ? "page" : undefined}>${T.views[name]}</a></li>`)}</ul></nav>
    <main id="content"><h2 ref=${heading} tabindex="-1">${T.views[view]}</h2>
      ${!user && !OF_ALL.includes(view)
        ? html`<${Empty} text=${users?.length ? T.noUser : T.noUsers} link=${users?.length ? T.toUsers : T.howToAdd}
            to=${users?.length ? address("users", {}) : HELP.add} />`
        : isReady && html`<${View.Of} key=${`${view} ${user}`} ...${{ user, params: at.params, go, set, toast }} />`}
    </main>
    ${told && html`<${Toast} told=${told} close=${() => tell(null)} />`}`;
}

render(html`<${Page} />`, document.getElementById("app"));
