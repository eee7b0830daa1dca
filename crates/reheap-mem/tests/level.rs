//! What the constructor finds out.
#![cfg(target_arch = "x86_64")]

mod common;

use common::assembled::Chosen;

#[test]
fn the_constructor_has_found_what_the_processor_can_do_before_main() {
    let level = Chosen::alone().found();
    let avx2 = std::arch::is_x86_feature_detected!("avx2");
    let avx512 = avx2
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vl");
    let keeps_its_clock = avx512 && std::arch::is_x86_feature_detected!("avxvnni");
    assert_eq!(
        level.wide,
        u8::from(avx2) + u8::from(avx512) + u8::from(keeps_its_clock)
    );
    // A megabyte and its quarter, at least, whatever a virtual machine says about its caches.
    assert!(level.streaming_min >= 1 << 20, "{level:?}");
    assert!(level.string_copy_min >= 1 << 18, "{level:?}");
    assert!(level.string_set_min >= 2048, "{level:?}");
}
