{
    echo '<shelf>'
    seq 1 3000 | sed 's,.*,<book number="&"><title>title &</title></book>,'
    echo '</shelf>'
} >shelf.xml
cat >sheet.xsl <<'SHEET'
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:key name="ends" match="book" use="@number mod 10"/>
  <xsl:template match="/">
    <html><xsl:for-each select="key('ends', 7)"><xsl:sort select="title" order="descending"/>
      <p><xsl:value-of select="concat(title, ' of ', count(//book[@number = 5]))"/></p></xsl:for-each></html>
  </xsl:template>
</xsl:stylesheet>
SHEET
xsltproc sheet.xsl shelf.xml | sha256sum
xsltproc sheet.xsl shelf.xml | head -n 5
xmllint --xpath 'count(//book[@number > 1000])' shelf.xml
xmllint --format --c14n shelf.xml | sha256sum
xmllint --noout sheet.xsl shelf.xml shelf.xml
echo '<a><b></a>' >broken.xml
xmllint --noout broken.xml 2>&1 || echo "refused with $?"
