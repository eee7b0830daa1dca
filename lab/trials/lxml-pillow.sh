exec python3 - <<'PROGRAM'
import hashlib
import io
import threading

import lxml.etree
from PIL import Image, ImageDraw, ImageFilter

root = lxml.etree.Element("shelf")
for number in range(4000):
    book = lxml.etree.SubElement(root, "book", number=str(number))
    lxml.etree.SubElement(book, "title").text = "title " * (number % 9)
text = lxml.etree.tostring(root)
again = lxml.etree.fromstring(text)
print("books", len(again.xpath("//book[string-length(title) > 30]")))
sheet = lxml.etree.XSLT(lxml.etree.XML(
    '<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/">'
    '<list><xsl:for-each select="//book[@number mod 5 = 0]"><i><xsl:value-of select="@number"/></i></xsl:for-each>'
    "</list></xsl:template></xsl:stylesheet>"))
print("list", hashlib.sha256(bytes(sheet(again))).hexdigest())

results = {}


def draw(seed):
    picture = Image.new("RGB", (160, 120), (seed * 20, 30, 90))
    pen = ImageDraw.Draw(picture)
    for line in range(100):
        pen.line((line, 0, 160 - line, 120), fill=(line, seed, 255 - line))
    picture = picture.filter(ImageFilter.GaussianBlur(2)).rotate(30).resize((99, 77), Image.LANCZOS)
    digests = []
    for kind in ("PNG", "JPEG", "GIF", "TIFF", "WEBP"):
        file = io.BytesIO()
        picture.save(file, kind)
        decoded = Image.open(io.BytesIO(file.getvalue())).convert("RGB")
        digests.append(hashlib.sha256(decoded.tobytes()).hexdigest()[:12])
    results[seed] = digests


threads = [threading.Thread(target=draw, args=(seed,)) for seed in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for seed in range(8):
    print("picture", seed, *results[seed])
PROGRAM
