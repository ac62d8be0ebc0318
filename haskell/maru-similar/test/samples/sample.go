package main
import "fmt"
import ("os"
 "io")
type Account struct { balance int }
func (a *Account) Get() int { return a.balance }
func total(xs []int) int {
	s := 0
	var t int = 2
	for i := 0; i < len(xs); i++ { if xs[i] > 0 { s += xs[i] } else if xs[i] == -1 { continue } else { break } }
	for _, x := range xs { s = s + x }
	for s >= 100 { s-- }
	switch s { case 1: s = 2
	default: s = 3 }
	f := func(a int) int { return a + 1 }
	defer g()
	return f(s)
}
