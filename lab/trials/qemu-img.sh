seq 1 1500000 >raw
truncate --size=24M raw
qemu-img create -q -f qcow2 base.qcow2 24M
qemu-img convert -f raw -O qcow2 -c -m 8 raw compressed.qcow2
qemu-img convert -f qcow2 -O vmdk compressed.qcow2 disk.vmdk
qemu-img convert -f vmdk -O vdi disk.vmdk disk.vdi
qemu-img convert -f vdi -O raw disk.vdi again
cmp raw again && echo 'the same bytes'
qemu-img create -q -f qcow2 -b compressed.qcow2 -F qcow2 overlay.qcow2
qemu-io -c 'write -P 7 1M 2M' -c 'aio_write -P 9 5M 1M' -c 'aio_flush' -c 'read -P 7 1M 2M' overlay.qcow2 | grep -c 'bytes at offset'
qemu-img snapshot -c first overlay.qcow2
qemu-io -c 'write -P 8 1M 1M' overlay.qcow2 >written
qemu-img snapshot -l overlay.qcow2 | awk 'NR > 2 { print $2 }'
qemu-img check overlay.qcow2 | head -n 1
qemu-img rebase -f qcow2 -b '' overlay.qcow2
qemu-img compare -f qcow2 -F raw compressed.qcow2 raw
qemu-img map --output=json overlay.qcow2 | python3 -c 'import json, sys; print(sum(part["length"] for part in json.load(sys.stdin)))'
