// The story above the laboratory, its steps as presets, and the sample view: loaded when needed.

import { make } from "./controls.js";

export function mountAround({ openInLab, answers }) {
  const element = document.getElementById("sample");
  let view = null;
  let loading = null;
  let shown = 0;
  story(openInLab);

  // The sample view, of the newest answer there is.
  function sample(words) {
    const wanted = words.view === "sample";
    element.hidden = !wanted;
    if (!wanted) {
      view?.destroy();
      view = null;
      return;
    }
    const newest = answers.shown.sample;
    if (!newest || loading) return;
    if (view) {
      if (newest.id !== shown) view.update(newest.answer);
      shown = newest.id;
      return;
    }
    loading = import("../sample/sample.js").then(({ mountSample }) => {
      loading = null;
      shown = newest.id;
      view = mountSample(element, { data: newest.answer });
    });
  }
  return { sample };
}

async function story(openInLab) {
  const element = document.getElementById("story");
  try {
    const answer = await fetch("/story.json");
    if (!answer.ok) throw new Error(await answer.text());
    const data = await answer.json();
    const { mountStory } = await import("../story/story.js");
    const lab = document.getElementById("lab");
    const before = lab.getBoundingClientRect().top;
    mountStory(element, { data, openInLab });
    // what is being read stays where it is
    if (location.search) scrollBy(0, lab.getBoundingClientRect().top - Math.min(before, innerHeight / 2));
    for (const step of data.steps) {
      const { address } = step.points[step.move.start];
      if (address === null) continue; // beyond the laboratory
      const button = make("button", { type: "button" }, step.title);
      button.onclick = () => openInLab(address);
      document.getElementById("presets").append(button);
    }
  } catch (error) {
    element.replaceChildren(make("p", { role: "alert" }, `The story is not there: ${error.message}`));
  }
}
