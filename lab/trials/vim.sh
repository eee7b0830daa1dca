cat >program.vim <<'PROGRAM'
set nomore
call setline(1, map(range(1, 5000), '"line " . v:val . repeat(" x", v:val % 13)'))
%s/\v(line) (\d+)/\2 \1/g
g/7 line/m0
sort! /\d\+ /
python3 << PYTHON
import vim, json, hashlib
buffer = vim.current.buffer
text = json.dumps(list(buffer))
buffer.append("sum " + hashlib.sha256(text.encode()).hexdigest())
for number in range(0, len(buffer), 500):
    buffer[number] = buffer[number].upper()
PYTHON
for turn in range(4)
  %yank
  $put
endfor
1,20w! first.txt
$-3,$w! last.txt
qall!
PROGRAM
vim.nox -u NONE -N -i NONE -es -S program.vim
cat first.txt last.txt
