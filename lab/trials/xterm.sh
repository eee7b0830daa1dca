. "$TRIALS/lib.sh"
# Without -noreset the server starts over, and refuses new clients for that time, whenever its last client leaves.
Xvfb -displayfd 3 -screen 0 800x600x24 -nolisten tcp -noreset 3>display 2>/dev/null &
server=$!
until_ready test -s display
DISPLAY=:$(cat display)
export DISPLAY
cat >inside.sh <<'SCRIPT'
for turn in 1 2 3; do
    seq 1 3000
    printf '\033[2J\033[31mcolour %s\033[0m\n' "$turn"
done
stty size
tput cols
echo "terminal $TERM"
SCRIPT
xterm -geometry 90x30 -T trial -l -lf log -sl 5000 -e sh -c 'sh inside.sh | tee output; touch ready; until [ -e stop ]; do sleep 0.05; done' &
terminal=$!
until_ready test -e ready
until_ready xwininfo -name trial
xwininfo -name trial | grep -o 'Map State: .*'
touch stop
status=0
wait "$terminal" || status=$?
echo "terminal ended with $status"
sha256sum <output
tail -n 3 output
finish "$server" >ended
