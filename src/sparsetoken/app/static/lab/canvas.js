// Paper of pixels, for figures and the map; `svg.js` has the paper of files.

import { FONT } from "./look.js";

// Lines stay within `clip`, a box, if there is one.
export function onCanvas(ctx, clip = null) {
  return {
    rect(x, y, width, height, fill) {
      ctx.fillStyle = fill;
      ctx.fillRect(x, y, width, height);
    },
    line(points, { colour, width, dash = [] }) {
      if (!points.length) return;
      ctx.save();
      if (clip) {
        ctx.beginPath();
        ctx.rect(clip.left, clip.top - 2, clip.width, clip.height + 4);
        ctx.clip();
      }
      ctx.beginPath();
      points.forEach(([x, y], k) => (k ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
      Object.assign(ctx, { strokeStyle: colour, lineWidth: width, lineJoin: "round" });
      ctx.setLineDash(dash);
      ctx.stroke();
      ctx.restore();
    },
    dot(x, y, radius, colour, opacity) {
      ctx.globalAlpha = opacity;
      ctx.fillStyle = colour;
      ctx.beginPath();
      ctx.arc(x, y, radius, 0, 2 * Math.PI);
      ctx.fill();
      ctx.globalAlpha = 1;
    },
    triangle(x, y, colour) {
      ctx.fillStyle = colour;
      ctx.beginPath();
      ctx.moveTo(x, y - 11);
      ctx.lineTo(x - 6, y);
      ctx.lineTo(x + 6, y);
      ctx.fill();
    },
    text(x, y, words, colour, align, turned = false, halo = "") {
      ctx.save();
      ctx.translate(x, y);
      if (turned) ctx.rotate(-Math.PI / 2);
      Object.assign(ctx, { font: `12px ${FONT}`, fillStyle: colour, textAlign: align, textBaseline: "alphabetic" });
      if (halo) {
        Object.assign(ctx, { strokeStyle: halo, lineWidth: 4, lineJoin: "round" });
        ctx.strokeText(words, 0, 0);
      }
      ctx.fillText(words, 0, 0);
      ctx.restore();
    },
  };
}
