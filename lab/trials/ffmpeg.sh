quiet='-hide_banner -loglevel error -nostdin -y -bitexact'
ffmpeg $quiet -f lavfi -i testsrc2=size=320x240:rate=25:duration=2 -f lavfi -i sine=frequency=440:duration=2 \
    -c:v mpeg4 -c:a aac -flags +bitexact first.mkv
ffmpeg $quiet -i first.mkv -vf 'scale=160:120,hue=h=90,drawgrid=w=20' -c:v libx264 -threads 4 -preset ultrafast -c:a flac second.mkv
ffmpeg $quiet -i second.mkv -f framemd5 - | tail -n 20
ffmpeg $quiet -i first.mkv -vf 'fps=2,tile=2x2' -frames:v 1 tile.png
ffmpeg $quiet -i first.mkv -c:a libmp3lame -vn sound.mp3
ffprobe -loglevel error -show_entries stream=codec_name,width,height -of csv tile.png
ffprobe -loglevel error -show_entries stream=codec_name -of csv sound.mp3
ffprobe -loglevel error -show_entries stream=codec_name,width,height,nb_read_frames -count_frames -of csv second.mkv
