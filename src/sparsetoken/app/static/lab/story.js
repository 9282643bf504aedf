// The story above the laboratory, its steps as presets, and the sample view: loaded when needed.

import { make } from "./controls.js";

export function mountAround({ openInLab, answers, connection }) {
  const element = document.getElementById("sample");
  let view = null;
  let loading = null;
  let shown = 0;
  story(openInLab, connection);

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

// Of an address with #step-4; 0 if it has no step.
const stepOf = (hash) => Number(/^#step-([1-6])$/.exec(hash)?.[1] ?? 0);

// Asked for until it is there: once more when the server is, or when somebody says so.
async function story(openInLab, connection) {
  const element = document.getElementById("story");
  element.classList.toggle("later", stepOf(location.hash) > 1);
  let data, mountStory;
  try {
    const answer = await fetch("/story.json");
    if (!answer.ok) throw new Error(await answer.text());
    data = await answer.json();
    ({ mountStory } = await import("../story/story.js"));
  } catch (error) {
    const again = () => {
      connection.removeEventListener("open", again);
      button.disabled = true;
      story(openInLab, connection);
    };
    const button = make("button", { type: "button" }, "Try again");
    button.onclick = again;
    connection.addEventListener("open", again);
    element.replaceChildren(make("p", { role: "alert" }, `The story is not there: ${error.message}`), make("p", {}, button));
    return;
  }
  const lab = document.getElementById("lab");
  const before = lab.getBoundingClientRect().top;
  element.replaceChildren();
  const open = (address) => openInLab(address, remarks.get(address) ?? "");
  const remarks = new Map(data.steps.flatMap((step) => step.points.map((point) => [point.address, step.remark])));
  const told = mountStory(element, {
    data, openInLab: open, step: stepOf(location.hash) || 1,
    onStep: (number) => {
      if (number !== (stepOf(location.hash) || 1)) history.pushState(null, "", `${location.pathname}${location.search}#step-${number}`);
    },
  });
  addEventListener("popstate", () => {
    const number = location.hash ? stepOf(location.hash) : 1;
    if (number) told.show(number);
  });
  // what is being read stays where it is
  if (location.search) scrollBy(0, lab.getBoundingClientRect().top - Math.min(before, innerHeight / 2));
  for (const step of data.steps) {
    const { address } = step.points[step.move.start];
    if (address === null) continue; // beyond the laboratory
    const button = make("button", { type: "button" }, step.title);
    button.onclick = () => open(address);
    document.getElementById("presets").append(button);
  }
}
