let () =
  let counts = Hashtbl.create 16 in
  let add word = if word <> "" then
    Hashtbl.replace counts word (1 + Option.value ~default:0 (Hashtbl.find_opt counts word)) in
  (try while true do
    List.iter add (String.split_on_char ' ' (String.lowercase_ascii (input_line stdin)))
  done with End_of_file -> ());
  let all = Hashtbl.fold (fun word count all -> (count, word) :: all) counts [] in
  let big = Bigarray.Array1.create Bigarray.float64 Bigarray.c_layout 100_000 in
  Bigarray.Array1.fill big 1.5;
  Printf.printf "%d words, %.1f\n" (List.length all) big.{99_999};
  List.iteri (fun i (count, word) -> if i < 10 then Printf.printf "%d %s\n" count word)
    (List.sort (fun (a, x) (b, y) -> compare (b, x) (a, y)) all)
