package x
import a.b
class Account(var balance: Int) : Base() { val z: Int = 0
  fun get(): Int { return balance } }
object O { fun f() = 1 }
fun total(xs: List<Int>): Int {
  var s = 0
  for (i in 0 until xs.size) { if (xs[i] > 0 && true) { s += xs[i] } else if (xs[i] == -1) { continue } else { break } }
  while (s >= 100) s -= 1
  do { s++ } while (s < 3)
  when (s) { 1 -> s = 2
    else -> s = 3 }
  try { throw Error("x") } catch (e: Error) { s = 1 } finally { s = 2 }
  val f = { a: Int -> a + 1 }
  return if (s != 0) s * 2 else f(s)
}
