import a from "b";
class Account extends Base { constructor(b) { this.balance = b; } get() { return this.balance; } }
function total(xs) {
  let s = 0;
  for (let i = 0; i < xs.length; i++) { if (xs[i] > 0) { s += xs[i]; } else if (xs[i] === -1) continue; else break; }
  for (const x of xs) { s++; }
  while (s >= 100) s -= 1;
  do { s++ } while (s < 3)
  switch (s) { case 1: s = 2; break; default: s = 3; }
  try { throw new Error("x"); } catch (e) { s = 1; } finally { s = 2; }
  const f = (a) => a + 1, g = function (b) { return b; };
  return s > 0 && !s ? s : f(s);
}
