openssl genrsa -out ca.key 2048 2>/dev/null
openssl req -x509 -new -key ca.key -days 10 -subj /CN=authority -out ca.pem
openssl ecparam -name prime256v1 -genkey -noout -out leaf.key
openssl req -new -key leaf.key -subj /CN=leaf -out leaf.csr
openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 5 -out leaf.pem 2>/dev/null
openssl verify -CAfile ca.pem leaf.pem
seq 1 200000 >numbers
for digest in md5 sha256 sha3-512 blake2b512; do
    openssl dgst "-$digest" numbers
done
openssl dgst -provider legacy -provider default -md4 numbers
openssl enc -aes-256-ctr -K "$(printf %064d 7)" -iv "$(printf %032d 9)" -in numbers | sha256sum
openssl dgst -sha256 -sign ca.key -out signature numbers
openssl x509 -in ca.pem -pubkey -noout >ca.pub
openssl dgst -sha256 -verify ca.pub -signature signature numbers
openssl cms -encrypt -aes256 -in numbers -outform DER -out numbers.cms ca.pem
openssl cms -decrypt -inform DER -in numbers.cms -inkey ca.key -recip ca.pem | sha256sum
openssl pkcs12 -export -inkey leaf.key -in leaf.pem -certfile ca.pem -passout pass:x -out leaf.p12
openssl pkcs12 -in leaf.p12 -passin pass:x -nokeys 2>/dev/null | grep -c 'BEGIN CERTIFICATE'
openssl speed -multi 2 -seconds 1 -bytes 1024 sha256 rsa2048 >speed 2>&1
grep -c '^rsa 2048 bits' speed
