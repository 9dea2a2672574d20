//! Runs kernels compiled for what this machine's CPU can do.
//!
//! The only module of the crate with `unsafe`: a function compiled for a CPU feature may be called only where the
//! feature is present, and the compiler cannot see the run-time test that proves it.
#![allow(unsafe_code)]

use super::checksum::{mix_body, mix_two_body};

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

/// Mixes two pages of equal length; see [`mix_two_body`].
#[cfg(target_arch = "x86_64")]
pub(super) fn mix_two(one: &[u8], other: &[u8]) -> [u32; 2] {
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature that the callee was compiled for has just been detected.
        return unsafe { mix_two_avx512(one, other) };
    }
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature that the callee was compiled for has just been detected.
        return unsafe { mix_two_avx2(one, other) };
    }
    [mix_body(one), mix_body(other)]
}

/// Mixes two pages; see [`mix_two_body`].
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn mix_two(one: &[u8], other: &[u8]) -> [u32; 2] {
    mix_two_body(one, other)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn mix_two_avx2(one: &[u8], other: &[u8]) -> [u32; 2] {
    mix_two_body(one, other)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn mix_two_avx512(one: &[u8], other: &[u8]) -> [u32; 2] {
    mix_two_body(one, other)
}

/// CRC-32C of `first` followed by `second` with the CPU's own instruction, one word after the other: for a few hundred
/// bytes nothing is faster. The length of `second` is fixed so that it takes no loop. `None` where there is no such instruction.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn short_crc32c<const N: usize>(first: &[u8], second: &[u8; N]) -> Option<u32> {
    // SAFETY: the feature that the callee was compiled for has just been detected.
    std::arch::is_x86_feature_detected!("sse4.2").then(|| unsafe { short_crc32c_sse42(first, second) })
}

/// `None`: there is no such kernel for this kind of CPU.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn short_crc32c<const N: usize>(_first: &[u8], _second: &[u8; N]) -> Option<u32> {
    None
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short_crc32c_sse42<const N: usize>(first: &[u8], second: &[u8; N]) -> u32 {
    !crc_steps_sse42(crc_steps_sse42(u32::MAX, first), second)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
#[inline]
fn crc_steps_sse42(state: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};

    let (words, rest) = bytes.as_chunks::<8>();
    let long = words.iter().fold(u64::from(state), |state, word| _mm_crc32_u64(state, u64::from_le_bytes(*word)));
    // The instruction leaves the upper half zero.
    let mut state = u32::try_from(long).unwrap_or_default();
    let (words, rest) = rest.as_chunks::<4>();
    if let [word] = words {
        state = _mm_crc32_u32(state, u32::from_le_bytes(*word));
    }
    let (words, rest) = rest.as_chunks::<2>();
    if let [word] = words {
        state = _mm_crc32_u16(state, u16::from_le_bytes(*word));
    }
    if let [byte] = rest {
        state = _mm_crc32_u8(state, *byte);
    }
    state
}
