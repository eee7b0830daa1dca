cat >page.ps <<'PROGRAM'
%!PS
/Helvetica findfont 12 scalefont setfont
1 1 5 {
  /page exch def
  0 1 40 { /line exch def 40 line 18 mul 30 add moveto (line ) show line 3 string cvs show
    page 50 mul line 15 mul moveto 30 20 rlineto stroke } for
  showpage
} for
PROGRAM
gs -q -dNOPAUSE -dBATCH -sDEVICE=pdfwrite -sOutputFile=pages.pdf page.ps
gs -q -dNOPAUSE -dBATCH -sDEVICE=png16m -r72 -dNumRenderingThreads=4 -sOutputFile=page-%d.png pages.pdf
gs -q -dNOPAUSE -dBATCH -sDEVICE=txtwrite -sOutputFile=- pages.pdf | sha256sum
for page in page-*.png; do
    python3 -c 'import sys, zlib; data = open(sys.argv[1], "rb").read(); print(len(data), zlib.crc32(data))' "$page"
done
