// Samples of a task, drawn from the exact law, and what three trained classifiers say of them.
//
// Nothing but projections is needed. Along the query q̂ and along ξ⊥, the part of the signal's
// direction ξ = s q̂ + √(1−s²) ξ⊥ that is orthogonal to it, token l has
//
//     g_l = θ s v_l + noise,    h_l = √(1−s²) θ v_l + noise,    noise ~ N(0, 1), independent.
//
// Each classifier's readout is known by its weights along these directions and the norm of its rest,
// which is orthogonal to them; a token's projection on a rest is one more normal. So
//
//     attention   w₁ Σ a_l g_l + w₂ Σ a_l h_l + rest ‖a‖ G₁ + b,   a the weights of τ g
//     pooled      w (mean of s g_l + √(1−s²) h_l) + rest G₂/√L + b
//     vectorized  w √L (the same mean) + rest G₃ + b,   a rest in R^{L·d} spread over all positions
//
// All three judge the same tokens. Each one's score has exactly its law, and so has its error. What
// they say together is exact in the limit of many dimensions if the three were trained on samples of
// their own: then their rests are orthogonal to one another and to the query, and G₁, G₂, G₃
// independent. Trained on the same samples the rests would be correlated: that changes how often two
// err together, and no single error. Tokens that share a part ρ of their noise have it in each
// projection: √ρ z + √(1−ρ) ε_l.

import { makeRandom } from "./random.js";
import { weightingOf } from "./weightings.js";

/** A source of samples: `data` as sample.py makes it, `seed` a whole number. */
export function makeSource(data, seed) {
  const { length, sparsity, strength, prevalence, cosine, sharpness } = data;
  const random = makeRandom(seed);
  const weigh = weightingOf(data.weighting);
  if (weigh === null) throw new Error(`unknown weighting ${data.weighting}`);
  const shared = data.token_correlation;
  const own = Math.sqrt(1 - shared), common = Math.sqrt(shared);
  const sine = Math.sqrt(Math.max(0, 1 - cosine * cosine));
  const order = Int32Array.from({ length }, (_, l) => l);

  /** Fills `along` and `across` with the tokens' projections; the places of the signal, sorted. */
  function drawTokens(positive, along, across) {
    const first = common * random.normal(), second = common * random.normal();
    for (let l = 0; l < length; l++) {
      along[l] = first + own * random.normal();
      across[l] = second + own * random.normal();
    }
    if (!positive) return [];
    for (let k = 0; k < sparsity; k++) { // the first of a shuffled order: a uniform subset
      const other = k + random.below(length - k);
      const kept = order[k];
      order[k] = order[other];
      order[other] = kept;
      along[order[k]] += strength * cosine;
      across[order[k]] += strength * sine;
    }
    return Array.from(order.subarray(0, sparsity)).sort((a, b) => a - b);
  }

  /** One sample with a label, +1 or −1, or one drawn by prevalence if none is given. */
  function draw(label = random.uniform() < prevalence ? 1 : -1) {
    const along = new Float64Array(length), across = new Float64Array(length);
    const places = drawTokens(label > 0, along, across);
    const scaled = along.map((score) => sharpness * score);
    const weights = new Float64Array(length);
    weigh(scaled, weights);
    const pooled = [0, 0], mean = [0, 0];
    let square = 0, caught = 0;
    for (let l = 0; l < length; l++) {
      pooled[0] += weights[l] * along[l];
      pooled[1] += weights[l] * across[l];
      mean[0] += along[l] / length;
      mean[1] += across[l] / length;
      square += weights[l] * weights[l];
    }
    for (const place of places) caught += weights[place];
    const sample = { label, along, across, places, weights, pooled, mean, caught };
    sample.scores = scoresOf(sample, Math.sqrt(shared + (1 - shared) * square));
    return sample;
  }

  function scoresOf({ pooled, mean }, spread) {
    const scores = {};
    const signal = cosine * mean[0] + sine * mean[1]; // of the mean token
    const meanSpread = Math.sqrt(shared + (1 - shared) / length);
    for (const [name, { weights, bias, rest }] of Object.entries(data.classifiers)) {
      const noise = rest * random.normal();
      if (name === "attention") {
        scores[name] = weights[0] * pooled[0] + weights[1] * pooled[1] + spread * noise + bias;
      } else if (name === "pooled") {
        scores[name] = weights[0] * signal + meanSpread * noise + bias;
      } else {
        scores[name] = weights[0] * Math.sqrt(length) * signal + noise + bias;
      }
    }
    return scores;
  }

  return { draw };
}

/** Whether a score of that label is on the wrong side. */
export function errs(label, score) {
  return label * score < 0;
}

/** Counts errors of a stream of samples: `add(sample)`, `count`, `of(name)` → error and its band. */
export function makeTally(data) {
  const wrong = Object.fromEntries(Object.keys(data.classifiers).map((name) => [name, 0]));
  const tally = { count: 0, wrong };
  tally.add = (sample) => {
    tally.count++;
    for (const name in wrong) if (errs(sample.label, sample.scores[name])) wrong[name]++;
  };
  tally.of = (name) => {
    const exact = data.classifiers[name].test_error;
    return { error: wrong[name] / tally.count, deviation: deviationOf(exact, tally.count) };
  };
  return tally;
}

/** Standard deviation of the share of errors among `count` samples if each errs with that chance. */
export function deviationOf(error, count) {
  return Math.sqrt((error * (1 - error)) / count);
}
