// The state of the page: every control's value, checked, and the same thing as an address.

export const settings = JSON.parse(document.getElementById("settings").textContent);
export const { controls, defaults, kinds } = settings;

const whole = (name) => controls[name].whole;

// The value that a word means, and a remark where it is not allowed.
export function checked(name, value) {
  const control = controls[name];
  if (control.choices.length) {
    if (control.choices.includes(value)) return { value };
    return { remark: `${name} must be one of ${control.choices.join(", ")}` };
  }
  const text = String(value).trim().replace(",", ".");
  const number = text === "" ? NaN : Number(text);
  const { lowest, highest } = control;
  if (!(number >= lowest && number <= highest) || (whole(name) && !Number.isInteger(number)))
    return { remark: `${name} must be a ${whole(name) ? "whole " : ""}number between ${lowest} and ${highest}` };
  return { value: number };
}

// What belongs together, settled: signal tokens are tokens, axes of the map differ, tokens that
// share noise have one covariance.
export function settled(words, moved = "") {
  const out = { ...words };
  if (out.sparsity > out.length) {
    if (moved === "sparsity") out.length = out.sparsity;
    else out.sparsity = out.length;
  }
  if (out.token_correlation > 0 && out.signal_spread !== 1) {
    if (moved === "token_correlation") out.signal_spread = 1;
    else out.token_correlation = 0;
  }
  if (out.across === out.up) {
    const other = moved === "up" ? "across" : "up";
    out[other] = out.across === "strength" ? "query_samples" : "strength";
  }
  return out;
}

// Words and remarks of the part of an address behind the question mark.
export function read(query) {
  const words = { ...defaults };
  const remarks = [];
  for (const [name, text] of [...new URLSearchParams(query)].slice(0, 100)) {
    const shown = text.length > 40 ? text.slice(0, 37) + "…" : text;
    if (!Object.hasOwn(controls, name)) {
      remarks.push(`ignored: ${name.slice(0, 40)}=${shown}`);
      continue;
    }
    const { value, remark } = checked(name, text);
    if (remark) remarks.push(`${remark}, not ${shown}: it is ${words[name]}`);
    else words[name] = value;
  }
  const out = settled(words);
  for (const name of ["sparsity", "token_correlation", "up"])
    if (out[name] !== words[name]) remarks.push(`${name}=${words[name]} does not fit the rest: it is ${out[name]}`);
  return { words: out, remarks };
}

// The shortest address of a state.
export function query(words) {
  const out = new URLSearchParams();
  for (const name of Object.keys(controls)) if (words[name] !== defaults[name]) out.set(name, words[name]);
  return out.toString();
}

// What an answer of this kind depends on; a map has all values of its axes.
export function fieldsOf(kind, words) {
  if (kind === "simulate") return settings.simulated;
  const { fields } = kinds[kind];
  return kind === "map" ? fields.filter((name) => name !== words.across && name !== words.up) : fields;
}

// As far as an answer of this kind depends on the state: equal keys, equal answers.
export function keyOf(kind, words) {
  return JSON.stringify(fieldsOf(kind, words).map((name) => words[name]));
}

const POSITIONS = 1000;
export const positions = POSITIONS;

export function valueAt(name, position) {
  const { least, most, log } = controls[name];
  const t = position / POSITIONS;
  if (position >= POSITIONS) return most;
  const value = log ? least * (most / least) ** t : least + (most - least) * t;
  return whole(name) ? Math.round(value) : Number(value.toPrecision(3));
}

export function positionOf(name, value) {
  const { least, most, log } = controls[name];
  const x = Math.min(most, Math.max(least, value));
  const t = log ? Math.log(x / least) / Math.log(most / least) : (x - least) / (most - least);
  return Math.round(POSITIONS * t);
}

export function told(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (value !== 0 && Math.abs(value) < 1e-12) return "<1e-12";
  return String(Number(value.toPrecision(6)));
}
