// How tokens are weighted by their scores: the rules of model/weightings.py, on arrays of numbers.

function softmax(scores, weights, least = -Infinity) {
  let top = -Infinity, total = 0;
  for (const score of scores) if (score > top) top = score;
  for (let l = 0; l < scores.length; l++) {
    weights[l] = scores[l] >= least ? Math.exp(scores[l] - top) : 0;
    total += weights[l];
  }
  for (let l = 0; l < scores.length; l++) weights[l] /= total;
}

function hardMax(scores, weights) {
  let top = -Infinity, ties = 0;
  for (const score of scores) if (score > top) top = score;
  for (const score of scores) if (score === top) ties++;
  for (let l = 0; l < scores.length; l++) weights[l] = scores[l] === top ? 1 / ties : 0;
}

function sparsemax(scores, weights) {
  // The projection on the simplex: max(score − cut, 0), with the cut at which they sum to one
  const sorted = Float64Array.from(scores).sort().reverse();
  let sum = 0, cut = 0;
  for (let k = 0; k < sorted.length; k++) {
    sum += sorted[k];
    if (1 + (k + 1) * sorted[k] <= sum) break;
    cut = (sum - 1) / (k + 1);
  }
  for (let l = 0; l < scores.length; l++) weights[l] = Math.max(scores[l] - cut, 0);
}

/** The rule of that name: a function (scores, weights to be filled), or null for an unknown one. */
export function weightingOf(name) {
  if (name === "softmax") return (scores, weights) => softmax(scores, weights);
  if (name === "hard-max") return hardMax;
  if (name === "sparsemax") return sparsemax;
  const top = /^top-(\d+)$/.exec(name);
  if (top === null) return null;
  const count = Number(top[1]);
  return (scores, weights) => {
    if (count >= scores.length) return softmax(scores, weights);
    const sorted = Float64Array.from(scores).sort();
    return softmax(scores, weights, sorted[scores.length - count]); // ties with the last one count
  };
}
