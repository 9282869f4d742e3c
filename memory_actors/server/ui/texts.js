// The texts of the page in its language; one that a translation lacks is in English.

import { language } from "./language.js";

const load = async (name) => (await import(`./texts/${name}.js`)).texts;
const [english, chosen] = await Promise.all([load("en"), load(language)]);

const translated = (texts, into = {}) =>
  Object.fromEntries(Object.entries(texts).map(([name, text]) => [
    name, typeof text === "object" ? translated(text, into[name]) : into[name] ?? text,
  ]));

export const T = translated(english, chosen);
