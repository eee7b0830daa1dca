exec perl - <<'PROGRAM'
use strict;
use warnings;
use threads;
use DBI;
use Digest::SHA qw(sha256_hex);
use JSON::XS;
use XML::LibXML;

my $json = JSON::XS->new->canonical->utf8;
my $database = DBI->connect("dbi:SQLite:dbname=:memory:", "", "", { RaiseError => 1 });
$database->do("create table words (id integer primary key, word text, document text)");
my $insert = $database->prepare("insert into words (word, document) values (?, ?)");
for my $number (1 .. 4000) {
    my $word = sha256_hex($number);
    $insert->execute($word, $json->encode({ word => $word, list => [ 1 .. $number % 40 ] }));
}
my $sum = 0;
for my $row (@{ $database->selectall_arrayref("select document from words order by word") }) {
    $sum += scalar @{ $json->decode($row->[0])->{list} };
}
print "elements of all lists: $sum\n";

my $document = XML::LibXML->createDocument;
my $root = $document->createElement("words");
$document->setDocumentElement($root);
for my $number (1 .. 3000) {
    $root->appendTextChild("word", "$number " x ($number % 7));
}
my $again = XML::LibXML->load_xml(string => $document->toString);
print "words in XML: ", scalar(@{ $again->findnodes('//word[string-length() > 20]') }), "\n";
undef $again;

my @threads = map {
    my $start = $_;
    threads->create(sub {
        my %count;
        $count{ length($_ x 3) }++ for $start .. $start + 20000;
        return join ",", map { "$_=$count{$_}" } sort { $a <=> $b } keys %count;
    })
} 1 .. 4;
print join("\n", map { $_->join } @threads), "\n";
PROGRAM
