cat >program.erl <<'PROGRAM'
-module(program).
-export([main/0]).

main() ->
    Self = self(),
    Pids = [spawn_link(fun() -> Self ! {self(), work(N)} end) || N <- lists:seq(1, 40)],
    Sums = [receive {Pid, Sum} -> Sum end || Pid <- Pids],
    io:format("~w~n", [Sums]),
    Table = ets:new(words, [ordered_set]),
    [ets:insert(Table, {crypto:hash(sha256, integer_to_binary(N)), N}) || N <- lists:seq(1, 10000)],
    io:format("~w~n", [ets:info(Table, size)]),
    Text = term_to_binary(ets:tab2list(Table), [compressed]),
    io:format("~w~n", [length(binary_to_term(Text))]),
    Key = crypto:strong_rand_bytes(32),
    Iv = crypto:strong_rand_bytes(16),
    Secret = crypto:crypto_one_time(aes_256_ctr, Key, Iv, Text, true),
    io:format("~w~n", [crypto:crypto_one_time(aes_256_ctr, Key, Iv, Secret, false) =:= Text]).

work(N) ->
    Binaries = [binary:copy(<<"word">>, X rem 50) || X <- lists:seq(1, 500 * N)],
    byte_size(iolist_to_binary(Binaries)).
PROGRAM
erlc program.erl
exec erl -noshell -noinput -s program main -s init stop
