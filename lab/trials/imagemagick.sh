convert -size 320x240 plasma:red-blue -seed 3 -blur 0x2 plasma.png
convert -size 320x240 gradient:red-blue -swirl 120 -charcoal 1 gradient.png
convert gradient.png -resize 50% -rotate 20 -sharpen 0x1 -quality 90 small.jpg
convert gradient.png -colors 32 indexed.gif
convert gradient.png small.jpg -append stacked.tiff
convert -delay 10 gradient.png -roll +20+0 -roll +20+0 moving.gif
montage gradient.png indexed.gif small.jpg -geometry 100x80+4+4 sheet.png
identify -format '%m %wx%h %# %n\n' gradient.png small.jpg indexed.gif stacked.tiff moving.gif sheet.png
compare -metric AE gradient.png indexed.gif null: 2>&1 || true
