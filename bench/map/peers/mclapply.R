# One measurement of map/peers by R's mclapply: Rscript mclapply.R LIBRARY KIND SIZE WORKERS
library(parallel)
words <- commandArgs(trailingOnly = TRUE)
dyn.load(words[1])
kind <- words[2]
size <- as.integer(words[3])
workers <- as.integer(words[4])
mark <- Sys.getenv("MARU_BENCH_MARK")
input_size <- 64 * 1024 * 1024
large <- if (kind == "input") rep_len(as.raw(0:250), input_size) else raw(0)
spun <- c(nothing = 0L, us10 = 10L, iterated = 10L, ms1 = 1000L, killed = 1000L, ms100 = 100000L)

item <- function(index) {
  if (kind == "results") return(rep(as.raw(index %% 256), 4 * 1024 * 1024))
  if (kind == "input") return(sum(as.integer(large[(index * 1000003 + (0:15) * 65537) %% input_size + 1])))
  if (kind == "killed" && index == 20) .C("peers_die_once_r", mark)
  us <- if (kind == "skewed") { if (index >= 60) 20000L else 1000L } else spun[[kind]]
  if (us > 0L) .C("peers_spin_r", us)
  index + 1
}

summary_of <- function(results) {
  if (kind == "results") sum(vapply(results, function(r) length(r) + as.numeric(r[1]), 0)) else sum(as.numeric(unlist(results)))
}

# Prescheduled is one fork for each worker; otherwise one for each item.
once <- function(xs) mclapply(xs, item, mc.cores = workers, mc.preschedule = !(kind %in% c("skewed", "ms100")))

run <- function() {
  if (kind != "iterated") return(summary_of(once(seq_len(size))))
  total <- 0
  for (k in seq_len(size)) total <- total + sum(unlist(once(k:(k + 7) + total %% 2)))
  total
}

cat("ready\n")
invisible(readLines(file("stdin"), n = 1))
before <- proc.time()
checksum <- run()
used <- proc.time() - before
cat(sprintf("{\"meter\":{\"wall_ns\":%.0f,\"cpu_self_ns\":%.0f,\"cpu_children_ns\":%.0f},\"checksum\":%.0f}\n",
  1e9 * used[["elapsed"]], 1e9 * (used[["user.self"]] + used[["sys.self"]]), 1e9 * (used[["user.child"]] + used[["sys.child"]]), checksum))
