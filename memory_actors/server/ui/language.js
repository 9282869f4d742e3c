// The language of the page, and how it writes numbers, dates and plural forms.

export const LANGUAGES = { en: "English", es: "Español", de: "Deutsch", "zh-Hans": "简体中文" };
const KEPT = "language";

const offered = (tag) => Object.keys(LANGUAGES).find((name) => name.split("-")[0] === tag.split("-")[0]);

/** The chosen language, else the first of the browser's that there is, else English. */
export const language = [localStorage.getItem(KEPT) ?? "", ...navigator.languages].map(offered).find(Boolean) ?? "en";
document.documentElement.lang = language;

/** Choose a language. The page reloads, because each module reads its texts once. */
export function chooseLanguage(name) {
  localStorage.setItem(KEPT, name);
  location.reload();
}

const formatter = (Format, options) => {
  const format = new Format(language, options);
  return (value) => format.format(value);
};
const numbers = (least, most) => formatter(Intl.NumberFormat, { minimumFractionDigits: least, maximumFractionDigits: most });
const [whole, tenths] = [numbers(0, 0), numbers(1, 1)];

export const number = numbers(0, 3);
export const thousandths = numbers(3, 3);
export const percent = formatter(Intl.NumberFormat, { style: "percent" });
export const moment = formatter(Intl.DateTimeFormat, { dateStyle: "medium", timeStyle: "short" });
export const exactly = formatter(Intl.DateTimeFormat, { dateStyle: "medium", timeStyle: "medium" });
export const day = formatter(Intl.DateTimeFormat, { month: "short", day: "numeric" });
export const clock = formatter(Intl.DateTimeFormat, { timeStyle: "short" });
export const seconds = (value) => `${whole(value)} s`;
export const ms = (value) => `${value && value < 10 ? tenths(value) : whole(value)} ms`;
export const bytes = (value) => {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
  return `${at && value < 100 ? tenths(value) : whole(value)} ${units[at]}`;
};

const plurals = new Intl.PluralRules(language);

/** A count and its noun, by `Intl.PluralRules`; a category that is not given is `other`. */
export const counted = (count, forms) => `${number(count)} ${forms[plurals.select(count)] ?? forms.other}`;
