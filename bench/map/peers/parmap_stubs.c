#include "work.h"

#include <caml/mlvalues.h>

value peers_spin_ml(value us) {
  peers_spin(Long_val(us));
  return Val_unit;
}

value peers_die_once_ml(value path) {
  peers_die_once(String_val(path));
  return Val_unit;
}
