//! The registers of a stopped thread, and how a system call and a call are put into them.

pub(super) use self::here::*;
pub(super) use nix::libc::user_regs_struct as Registers;

#[cfg(target_arch = "x86_64")]
mod here {
    use super::Registers;

    /// `syscall`.
    pub(in super::super) const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
    /// `call rax; mov edi, eax; mov eax, 39 (getpid); syscall`: a call, and a stop that shows its result.
    pub(in super::super) const CALLER: [u8; 11] =
        [0xff, 0xd0, 0x89, 0xc7, 0xb8, 39, 0, 0, 0, 0x0f, 0x05];
    const DIRECTION_FLAG: u64 = 1 << 10;

    pub(in super::super) fn program_counter(registers: &Registers) -> u64 {
        registers.rip
    }

    pub(in super::super) fn stack_pointer(registers: &Registers) -> u64 {
        registers.rsp
    }

    /// Whether the thread is inside a system call, and so not in the middle of anything of its own.
    pub(in super::super) fn is_in_system_call(registers: &Registers) -> bool {
        registers.orig_rax as i64 >= 0
    }

    /// `site` is the address of a system call instruction.
    pub(in super::super) fn prepare_system_call(
        registers: &mut Registers,
        site: u64,
        number: i64,
        arguments: [u64; 6],
    ) {
        registers.rip = site;
        registers.rax = number as u64;
        // Otherwise the kernel would restart the call that the thread was interrupted in.
        registers.orig_rax = u64::MAX;
        [
            registers.rdi,
            registers.rsi,
            registers.rdx,
            registers.r10,
            registers.r8,
            registers.r9,
        ] = arguments;
    }

    pub(in super::super) fn system_call_result(registers: &Registers) -> u64 {
        registers.rax
    }

    /// The number and the first two arguments of the system call that the thread is about to make.
    pub(in super::super) fn system_call(registers: &Registers) -> (i64, [u64; 2]) {
        (registers.orig_rax as i64, [registers.rdi, registers.rsi])
    }

    /// `caller` is the address of [`CALLER`].
    pub(in super::super) fn prepare_call(
        registers: &mut Registers,
        caller: u64,
        function: u64,
        argument: u64,
        stack: u64,
    ) {
        registers.rip = caller;
        registers.rax = function;
        registers.orig_rax = u64::MAX;
        registers.rdi = argument;
        registers.rsp = stack;
        registers.rbp = 0;
        registers.eflags &= !DIRECTION_FLAG;
    }

    pub(in super::super) fn call_result(registers: &Registers) -> i32 {
        registers.rdi as i32
    }
}

#[cfg(target_arch = "aarch64")]
mod here {
    use super::Registers;

    /// `svc #0`.
    pub(in super::super) const SYSTEM_CALL: [u8; 4] = 0xd400_0001_u32.to_le_bytes();
    /// `blr x9; mov x8, #172 (getpid); svc #0`: a call, and a stop that shows its result.
    pub(in super::super) const CALLER: [u8; 12] = [
        0x20, 0x01, 0x3f, 0xd6, 0x88, 0x15, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4,
    ];
    /// The thread came by an indirect branch, and must land where that is allowed (`BTYPE`).
    const COMES_BY_BRANCH: u64 = 3 << 10;

    pub(in super::super) fn program_counter(registers: &Registers) -> u64 {
        registers.pc
    }

    pub(in super::super) fn stack_pointer(registers: &Registers) -> u64 {
        registers.sp
    }

    /// The kernel does not show this here: every thread is as good as another.
    pub(in super::super) fn is_in_system_call(_registers: &Registers) -> bool {
        false
    }

    /// `site` is the address of a system call instruction.
    pub(in super::super) fn prepare_system_call(
        registers: &mut Registers,
        site: u64,
        number: i64,
        arguments: [u64; 6],
    ) {
        registers.pc = site;
        registers.pstate &= !COMES_BY_BRANCH;
        registers.regs[8] = number as u64;
        registers.regs[..6].copy_from_slice(&arguments);
    }

    pub(in super::super) fn system_call_result(registers: &Registers) -> u64 {
        registers.regs[0]
    }

    /// The number and the first two arguments of the system call that the thread is about to make.
    pub(in super::super) fn system_call(registers: &Registers) -> (i64, [u64; 2]) {
        let [first, second] = [registers.regs[0], registers.regs[1]];
        (registers.regs[8] as i64, [first, second])
    }

    /// `caller` is the address of [`CALLER`].
    pub(in super::super) fn prepare_call(
        registers: &mut Registers,
        caller: u64,
        function: u64,
        argument: u64,
        stack: u64,
    ) {
        registers.pc = caller;
        registers.pstate &= !COMES_BY_BRANCH;
        registers.regs[9] = function;
        registers.regs[0] = argument;
        registers.sp = stack;
        registers.regs[29] = 0;
    }

    pub(in super::super) fn call_result(registers: &Registers) -> i32 {
        registers.regs[0] as i32
    }
}
