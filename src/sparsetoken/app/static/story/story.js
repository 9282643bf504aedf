// The story: six steps, one at a time, each with a picture, a sentence made from exact numbers and one
// thing to move. story.py makes the data.

import { mountSample } from "../sample/sample.js";
import { make, makeCanvas } from "../sample/surface.js";
import { PICTURES } from "./pictures.js";

const SEED = 1; // attention and the mean judge its first sample differently: play shows how often

/**
 * Shows the story in the element.
 *
 * `openInLab(address)` shows a step's numbers in the laboratory; without it commands are shown.
 * `step` is the one to begin with, 1 to 6, and `onStep(number)` is told of others.
 * Returns `show(number)`, `step()`, `sample()` (the mounted one, or null) and `destroy()`.
 */
export function mountStory(element, { data, openInLab = null, step: first = 1, onStep = null }) {
  const { steps } = data;
  let at = -1, chosen = 0, picture = null, sample = null;

  const tabs = steps.map((step, k) => {
    const tab = make("button", { type: "button", "aria-label": `${k + 1}. ${step.title}` },
      make("span", { className: "story-number" }, String(k + 1)), " ",
      make("span", { className: "story-name" }, step.title));
    tab.addEventListener("click", () => go(k));
    return tab;
  });
  const heading = make("h2", { tabIndex: -1 });
  const sentence = make("p", { className: "story-sentence", "aria-live": "polite" });
  const slider = make("input", { type: "range", min: "0", step: "1" });
  const label = make("label", { className: "story-label" });
  const output = make("output", { className: "story-value" });
  slider.id = `story-move-${Math.random().toString(36).slice(2)}`;
  label.htmlFor = output.htmlFor = slider.id;
  slider.addEventListener("input", () => move(Number(slider.value)));
  const shown = make("div", { className: "story-picture" });
  const open = make("button", { type: "button", className: "story-open" }, "Open in the laboratory");
  open.addEventListener("click", () => openInLab(point().address));
  const commands = make("pre");
  const details = make("details", { className: "story-commands", open: openInLab === null },
    make("summary", {}, "The same numbers on the command line"), commands);
  const back = make("button", { type: "button" }, "← Back");
  const next = make("button", { type: "button", className: "story-next" }, "Next →");
  back.addEventListener("click", () => go(at - 1, true));
  next.addEventListener("click", () => go(at + 1, true));

  const root = make("section", { className: "story", "aria-label": "the story in six steps" },
    make("nav", { className: "story-steps", "aria-label": "steps" },
      make("ol", {}, ...tabs.map((tab) => make("li", {}, tab)))),
    heading, sentence,
    make("div", { className: "story-move" }, label, slider, output),
    shown,
    make("div", { className: "story-end" }, back, next, open),
    details);
  element.append(root);

  const point = () => steps[at].points[chosen];

  /** Another step; focus follows where a button below the picture led there. */
  function go(number, follow = false) {
    if (number === at || number < 0 || number >= steps.length) return;
    at = number;
    const step = steps[at];
    clear();
    tabs.forEach((tab, k) => {
      if (k === at) tab.setAttribute("aria-current", "step");
      else tab.removeAttribute("aria-current");
    });
    heading.textContent = `${at + 1}. ${step.title}`;
    root.dataset.step = step.name;
    const { words, symbol, values, start } = step.move;
    label.replaceChildren(`${words} `, make("i", {}, symbol));
    slider.max = String(values.length - 1);
    slider.value = String(start);
    back.disabled = at === 0;
    next.disabled = at === steps.length - 1;
    chosen = start;
    if ("sample" in step.points[start]) {
      sample = mountSample(shown, { data: step.points[start].sample, seed: SEED });
    } else {
      const { paint } = PICTURES[step.name];
      picture = makeCanvas((...on) => paint(...on, { step, chosen }));
      shown.append(picture.element);
    }
    move(start);
    if (follow) heading.focus({ preventScroll: false });
    onStep?.(at + 1);
  }

  function clear() {
    sample?.destroy();
    picture?.destroy();
    sample = picture = null;
    shown.replaceChildren();
  }

  /** Another value of what is moved. */
  function move(place) {
    const changed = place !== chosen;
    chosen = place;
    const { value, sentence: words, address, commands: lines } = point();
    const named = inWords(steps[at].move.field, value);
    output.textContent = named;
    slider.setAttribute("aria-valuetext", named);
    sentence.replaceChildren(...words.split("**").map((part, k) => (k % 2 ? make("strong", {}, part) : part)));
    if (sample && changed) sample.update(point().sample);
    if (picture) {
      picture.name(PICTURES[steps[at].name].name(point()));
      picture.redraw();
    }
    open.hidden = openInLab === null || address === null;
    commands.textContent = lines.join("\n");
  }

  go(Math.min(steps.length, Math.max(1, first)) - 1);
  return {
    show: (number) => go(number - 1),
    step: () => at + 1,
    sample: () => sample,
    destroy: () => {
      clear();
      root.remove();
    },
  };
}

function inWords(field, value) {
  return field === "prevalence" ? `${Math.round(100 * value)} %` : String(value);
}
