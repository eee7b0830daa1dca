. "$TRIALS/lib.sh"
# Without -noreset the server starts over, and refuses new clients for that time, whenever its last client leaves.
Xvfb -displayfd 3 -screen 0 800x600x24 -nolisten tcp -noreset 3>display 2>/dev/null &
server=$!
until_ready test -s display
DISPLAY=:$(cat display)
export DISPLAY NO_AT_BRIDGE=1 GSETTINGS_BACKEND=memory GDK_BACKEND=x11
seq 1 3000 | sed 's/.*/line & of the text/' >text.txt
mousepad --disable-server text.txt 2>messages &
editor=$!
until_ready xdotool search --name 'text.txt'
typed() {
    xdotool search --onlyvisible --name 'text.txt' windowfocus
    xdotool key ctrl+Home
    xdotool type --delay 5 "$1"
    xdotool key ctrl+s
    sleep 0.2
    grep --quiet "$1" text.txt
}
until_ready typed typed
grep -o 'typed' text.txt | sort -u
tail -n 1 text.txt
xwininfo -root -tree | grep -c 'text.txt'
import -window root screen.png 2>/dev/null && identify -format '%m %wx%h\n' screen.png
xdotool key ctrl+q
status=0
wait "$editor" || status=$?
echo "editor ended with $status"
finish "$server" >ended
