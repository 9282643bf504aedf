// Colours of Okabe and Ito, safe for the colour-blind, and dashes that tell them apart in grey.

const LIGHT = {
  ink: "#1b1b1b", soft: "#595959", line: "#d8d8d8", paper: "#ffffff",
  attention: "#c04f00", vectorized: "#007a58", pooled: "#0068a3", other: "#555555", any: "#767676", "message passing": "#767676",
  cosine: "#c04f00", "guessing": "#767676",
  wins: "#c04f00", loses: "#0068a3", tie: "#c9c9c9",
};
const DARK = {
  ink: "#e8e8e8", soft: "#a9a9a9", line: "#3a3f44", paper: "#14171a",
  attention: "#ff8a3d", vectorized: "#2ccb9a", pooled: "#56b4e9", other: "#bbbbbb", any: "#a0a0a0", "message passing": "#a0a0a0",
  cosine: "#ff8a3d", "guessing": "#a0a0a0",
  wins: "#ff8a3d", loses: "#56b4e9", tie: "#55595e",
};
const STROKES = {
  attention: { width: 2.4, dash: [] },
  vectorized: { width: 2.6, dash: [8, 4] },
  pooled: { width: 1.8, dash: [8, 3, 2, 3] },
  any: { width: 1.4, dash: [] },
  "message passing": { width: 3.5, dash: [] },
  guessing: { width: 1, dash: [2, 3] },
};
export const FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif";

const dark = matchMedia("(prefers-color-scheme: dark)");
export const theme = () => (dark.matches ? DARK : LIGHT);
export const onWhite = LIGHT;
export const onThemeChange = (then) => dark.addEventListener("change", then);
export const colour = (name, colours = theme()) => colours[name] ?? colours.other;
export const stroke = (name) => STROKES[name] ?? { width: 2, dash: [4, 2] };

// Diverging, from where attention wins to where it loses; equal is grey. Full at a factor of ten.
export function diverging(value, colours = theme()) {
  if (value === 0) return colours.tie;
  const side = hex(value < 0 ? colours.wins : colours.loses);
  const middle = hex(colours.paper);
  const t = Math.min(1, 0.12 + 0.88 * Math.abs(value));
  return `rgb(${side.map((x, k) => Math.round(middle[k] + t * (x - middle[k]))).join(",")})`;
}

const hex = (text) => [1, 3, 5].map((k) => parseInt(text.slice(k, k + 2), 16));
