// A figure as SVG on white, with parameters, link and version in it; and the same as PNG.

import { content, ticks } from "./draw.js";
import { FONT, onWhite } from "./look.js";
import { drawMap } from "./map.js";

const SIZE = { width: 900, height: 600 };
const BOX = { left: 70, top: 24, width: 690, height: 440 };

const escaped = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
const short = (x) => Number(x.toFixed(2));

export function svg(figure, notes) {
  const out = [];
  const paper = onSvg(out, figure.view !== "map");
  if (figure.view === "map") drawMap(figure, paper, { width: SIZE.width, height: 510 }, onWhite);
  else curves(figure, paper, out);
  notes.slice(0, 5).forEach((note, k) => paper.text(16, 530 + 16 * k, note, onWhite.soft, "left"));
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${SIZE.width}" height="${SIZE.height}" viewBox="0 0 ${SIZE.width} ${SIZE.height}" font-family="${escaped(FONT)}" font-size="12">`
    + `<title>${escaped(notes[0])}</title><desc>${escaped(notes.join("\n"))}</desc>`
    + `<defs><clipPath id="box"><rect x="${BOX.left}" y="${BOX.top - 2}" width="${BOX.width}" height="${BOX.height + 4}"/></clipPath></defs>`
    + `<rect width="100%" height="100%" fill="#ffffff"/>${out.join("")}</svg>`;
}

function curves(figure, paper, out) {
  const along = (axis, from, length) => (value) => {
    const scale = (v) => (axis.log ? Math.log(v) : v);
    return from + (length * (scale(value) - scale(axis.min))) / (scale(axis.max) - scale(axis.min));
  };
  const place = { x: along(figure.x, BOX.left, BOX.width), y: along(figure.y, BOX.top + BOX.height, -BOX.height) };
  const bottom = BOX.top + BOX.height;
  const plain = { colour: onWhite.line, width: 1, dash: [] };
  for (const tick of ticks(figure.x)) {
    paper.line([[place.x(tick), BOX.top], [place.x(tick), bottom]], plain);
    paper.text(place.x(tick), bottom + 17, String(tick), onWhite.ink, "center");
  }
  for (const tick of ticks(figure.y)) {
    paper.line([[BOX.left, place.y(tick)], [BOX.left + BOX.width, place.y(tick)]], plain);
    paper.text(BOX.left - 7, place.y(tick) + 4, String(tick), onWhite.ink, "right");
  }
  paper.text(BOX.left + BOX.width / 2, bottom + 38, figure.x.label, onWhite.ink, "center");
  paper.text(22, BOX.top + BOX.height / 2, figure.y.label, onWhite.ink, "center", true);
  content(figure, paper, BOX, place, onWhite);
  void out;
}

function onSvg(out, clipped) {
  return {
    line(points, { colour, width, dash }) {
      if (!points.length) return;
      const path = points.map(([x, y], k) => `${k ? "L" : "M"}${short(x)} ${short(y)}`).join("");
      out.push(`<path d="${path}" fill="none" stroke="${colour}" stroke-width="${width}"${dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : ""}${clipped ? ' clip-path="url(#box)"' : ""}/>`);
    },
    rect(x, y, width, height, fill) {
      out.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="${fill}"/>`);
    },
    dot(x, y, radius, colour, opacity) {
      out.push(`<circle cx="${short(x)}" cy="${short(y)}" r="${radius}" fill="${colour}" fill-opacity="${opacity}"/>`);
    },
    triangle(x, y, colour) {
      out.push(`<path d="M${short(x)} ${short(y - 11)}L${short(x - 6)} ${short(y)}L${short(x + 6)} ${short(y)}Z" fill="${colour}"/>`);
    },
    text(x, y, words, colour, align, turned = false, halo = "") {
      const anchor = { left: "start", center: "middle", right: "end" }[align];
      const turn = turned ? ` transform="rotate(-90 ${short(x)} ${short(y)})"` : "";
      const ring = halo ? ` stroke="${halo}" stroke-width="4" paint-order="stroke"` : "";
      out.push(`<text x="${short(x)}" y="${short(y)}" fill="${colour}" text-anchor="${anchor}"${turn}${ring}>${escaped(words)}</text>`);
    },
  };
}

export async function png(text) {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: 2 * SIZE.width, height: 2 * SIZE.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}
