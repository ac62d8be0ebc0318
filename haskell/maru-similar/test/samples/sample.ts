import { a } from "b";
interface Shape { area(): number; }
class Account<T> implements Shape { private balance: number = 0; constructor(b: number) { this.balance = b; } area(): number { return this.balance!; } }
export function total(xs: number[]): number {
  let s: number = 0;
  for (const x of xs) { if (x > 0) { s += x as number; } }
  const f = (a: number): number => a + 1;
  return f(s);
}
