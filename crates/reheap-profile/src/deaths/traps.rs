//! Instructions that programs execute only to end themselves: whoever put them there noticed a fault.

/// The name of such an instruction, from its bytes and the address that it could not use.
#[cfg(target_arch = "x86_64")]
pub fn trap(code: &[u8], _address: u64) -> Option<&'static str> {
    match code {
        [0xf4, ..] => Some("hlt"), // musl's a_crash
        [0x0f, 0x0b, ..] => Some("ud2"),
        [0x0f, 0xb9, ..] => Some("ud1"),
        [0xcc, ..] => Some("int3"),
        _ => None,
    }
}

/// The name of such an instruction, from its bytes and the address that it could not use.
#[cfg(target_arch = "aarch64")]
pub fn trap(code: &[u8], address: u64) -> Option<&'static str> {
    let word = u32::from_le_bytes(*code.first_chunk()?);
    match word {
        _ if word & 0xffe0_001f == 0xd420_0000 => Some("brk"),
        _ if word & 0xffff_0000 == 0 => Some("udf"),
        // musl's a_crash
        _ if word & 0xffff_fc1f == 0x3900_001f && address == 0 => Some("strb to address 0"),
        _ => None,
    }
}
