export GST_REGISTRY="$PWD/registry.bin"
gst-launch-1.0 --quiet videotestsrc num-buffers=60 pattern=ball ! video/x-raw,width=160,height=120 ! videoconvert ! \
    queue ! tee name=t t. ! queue ! jpegenc ! avimux ! filesink location=ball.avi \
    t. ! queue ! videoscale ! video/x-raw,width=80,height=60 ! pngenc ! multifilesink location=frame-%02d.png
ls frame-*.png | wc -l
sha256sum <ball.avi
gst-launch-1.0 --quiet filesrc location=ball.avi ! avidemux ! jpegdec ! videoflip method=clockwise ! videoconvert ! \
    video/x-raw,format=RGB ! filesink location=raw
sha256sum <raw
gst-launch-1.0 --quiet audiotestsrc num-buffers=100 ! audioconvert ! audioresample ! audio/x-raw,rate=22050 ! \
    vorbisenc ! oggmux ! fakesink silent=true
gst-launch-1.0 --quiet audiotestsrc num-buffers=200 wave=saw ! audioconvert ! flacenc ! flacparse ! \
    fakesink silent=true
gst-launch-1.0 --quiet audiotestsrc num-buffers=200 ! audioecho delay=20000000 ! wavenc ! filesink location=sound.wav
sha256sum <sound.wav
gst-inspect-1.0 videotestsrc | grep -c 'pattern'
