export GNUPGHOME="$PWD/keys"
mkdir -m 700 keys
echo 's2k-count 65536' >keys/gpg-agent.conf
quick="gpg --batch --quiet --no-tty --pinentry-mode loopback --passphrase secret --no-auto-check-trustdb --s2k-count 65536"
$quick --quick-generate-key 'Trial <trial@example.org>' ed25519 sign never 2>/dev/null
key=$(gpg --batch --with-colons --list-keys trial@example.org | awk -F: '$1 == "fpr" { print $10; exit }')
$quick --quick-add-key "$key" cv25519 encr never
seq 1 100000 >numbers
$quick --trust-model always --recipient trial@example.org --sign --encrypt --output numbers.gpg numbers
$quick --decrypt numbers.gpg 2>decrypted | sha256sum
grep -c 'Good signature' decrypted
$quick --symmetric --cipher-algo AES256 --compress-algo bzip2 --output numbers.sym numbers
$quick --decrypt numbers.sym 2>/dev/null | sha256sum
$quick --armor --detach-sign --output numbers.asc numbers
gpg --batch --verify numbers.asc numbers 2>&1 | grep -c 'Good signature'
echo more >>numbers
gpg --batch --verify numbers.asc numbers 2>&1 | grep -c 'BAD signature'
gpgconf --kill all
