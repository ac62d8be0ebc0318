(* One measurement of map/peers by OCaml's Parmap: parmap KIND SIZE WORKERS *)
external spin : int -> unit = "peers_spin_ml"
external die_once : string -> unit = "peers_die_once_ml"

let kind = Sys.argv.(1)
let size = int_of_string Sys.argv.(2)
let workers = int_of_string Sys.argv.(3)
let mark = try Sys.getenv "MARU_BENCH_MARK" with Not_found -> ""
let input_size = 64 * 1024 * 1024
let large = if kind = "input" then Bytes.init input_size (fun k -> Char.chr (k mod 251)) else Bytes.empty
let rec range a b = if a > b then [] else a :: range (a + 1) b

let item index =
  if kind = "killed" && index = 20 then die_once mark;
  (match kind with
   | "nothing" -> ()
   | "us10" | "iterated" -> spin 10
   | "ms100" -> spin 100000
   | "skewed" -> spin (if index >= 60 then 20000 else 1000)
   | _ -> spin 1000);
  index + 1

let look index =
  List.fold_left (fun s k -> s + Char.code (Bytes.get large ((index * 1000003 + k * 65537) mod input_size))) 0 (range 0 15)

let by_map f xs =
  let one_by_one = List.mem kind [ "skewed"; "ms100" ] in
  if one_by_one then Parmap.parmap ~ncores:workers ~chunksize:1 f (Parmap.L xs) else Parmap.parmap ~ncores:workers f (Parmap.L xs)

let total = List.fold_left ( + ) 0

let run () =
  match kind with
  | "results" ->
    total (List.map (fun r -> Bytes.length r + Char.code (Bytes.get r 0))
             (by_map (fun i -> Bytes.make (4 * 1024 * 1024) (Char.chr (i mod 256))) (range 1 size)))
  | "input" -> total (by_map look (range 1 size))
  | "iterated" ->
    List.fold_left (fun sum k -> sum + total (by_map item (List.map (fun i -> i + sum mod 2) (range k (k + 7))))) 0 (range 1 size)
  | _ -> total (by_map item (range 1 size))

let () =
  print_endline "ready";
  ignore (input_line stdin);
  let cpu () = let t = Unix.times () in (t.Unix.tms_utime +. t.Unix.tms_stime, t.Unix.tms_cutime +. t.Unix.tms_cstime) in
  let own, theirs = cpu () and begun = Unix.gettimeofday () in
  let checksum = run () in
  let ended = Unix.gettimeofday () and own', theirs' = cpu () in
  Printf.printf "{\"meter\":{\"wall_ns\":%.0f,\"cpu_self_ns\":%.0f,\"cpu_children_ns\":%.0f},\"checksum\":%d}\n"
    (1e9 *. (ended -. begun)) (1e9 *. (own' -. own)) (1e9 *. (theirs' -. theirs)) checksum
