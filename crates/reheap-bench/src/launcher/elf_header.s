/* The beginning of an executable file (System V ABI, chapters 4 and 5): it is data here, and code when it is run. */
.pushsection .rodata.reheap_launcher,"a",%progbits
.set reheap_launcher_base, 0x400000
.balign 16
/* For the linker, not only for the assembler: optimisation moves the code that reads them to another object. */
.globl reheap_launcher_start, reheap_launcher_end
.hidden reheap_launcher_start, reheap_launcher_end
reheap_launcher_start:
.byte 0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0    /* ELF, 64 bits, little-endian, version 1, System V */
.8byte 0
.2byte 2, {machine}                         /* ET_EXEC */
.4byte 1
.8byte reheap_launcher_base + (60f - reheap_launcher_start)     /* the entry point */
.8byte 64, 0                                /* program headers here, no section headers */
.4byte 0
.2byte 64, 56, 2, 0, 0, 0

.4byte 1, 5                                 /* PT_LOAD, readable and executable: the whole file */
.8byte 0, reheap_launcher_base, reheap_launcher_base
.8byte reheap_launcher_end - reheap_launcher_start
.8byte reheap_launcher_end - reheap_launcher_start
.8byte 0x10000                              /* the largest page size of any machine */

.4byte 0x6474e551, 6                        /* PT_GNU_STACK, readable and writable: not executable */
.8byte 0, 0, 0, 0, 0, 16
