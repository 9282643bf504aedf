// Random numbers with a seed: xoshiro128** (Blackman and Vigna), seeded by splitmix32; normals by
// Marsaglia's polar method. The same seed gives the same samples in every browser.

function splitmix32(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return (z ^ (z >>> 15)) >>> 0;
  };
}

function rotated(x, k) {
  return (x << k) | (x >>> (32 - k));
}

/** Generator with bits() in [0, 2³²), uniform() in [0, 1) of 53 bits, below(n) and normal(). */
export function makeRandom(seed) {
  const next = splitmix32(seed);
  let a = next(), b = next(), c = next(), d = next();
  let spare = NaN; // the second normal of a pair

  function bits() {
    const result = Math.imul(rotated(Math.imul(b, 5), 7), 9) >>> 0;
    const t = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= t;
    d = rotated(d, 11);
    return result;
  }

  function uniform() {
    return ((bits() >>> 5) * 67108864 + (bits() >>> 6)) / 9007199254740992;
  }

  function normal() {
    if (spare === spare) {
      const kept = spare;
      spare = NaN;
      return kept;
    }
    let x, y, square;
    do {
      x = 2 * uniform() - 1;
      y = 2 * uniform() - 1;
      square = x * x + y * y;
    } while (square >= 1 || square === 0);
    const factor = Math.sqrt((-2 * Math.log(square)) / square);
    spare = y * factor;
    return x * factor;
  }

  return { bits, uniform, normal, below: (n) => Math.floor(uniform() * n) };
}
