//! Runs the checksum body compiled for the widest registers that this machine has.
//!
//! The only module of the crate with `unsafe`: a function compiled for a CPU feature may be called only where the
//! feature is present, and the compiler cannot see the run-time test that proves it.
#![allow(unsafe_code)]

use super::checksum::mix_body;

/// Mixes a page; see [`mix_body`].
#[cfg(target_arch = "x86_64")]
pub(super) fn mix(page: &[u8]) -> u32 {
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature that the callee was compiled for has just been detected.
        return unsafe { mix_avx2(page) };
    }
    mix_body(page)
}

/// Mixes a page; see [`mix_body`].
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn mix(page: &[u8]) -> u32 {
    mix_body(page)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn mix_avx2(page: &[u8]) -> u32 {
    mix_body(page)
}
