//! Runs kernels compiled for what this machine's CPU can do.
//!
//! The only module of the crate with `unsafe`: a function compiled for a CPU feature may be called only where the
//! feature is present, and the compiler cannot see the run-time test that proves it.
#![allow(unsafe_code)]

use super::checksum::mix_body;
use super::page::{PointerBounds, all_inside_body};

/// Mixes a page; see [`mix_body`].
#[cfg(target_arch = "x86_64")]
pub(super) fn mix(page: &[u8]) -> [u32; 1] {
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature that the callee was compiled for has just been detected.
        return unsafe { mix_avx2([page]) };
    }
    mix_body([page])
}

/// Mixes a page; see [`mix_body`].
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn mix(page: &[u8]) -> [u32; 1] {
    mix_body([page])
}

/// Mixes four pages of equal length, as many at a time as the registers have room for; see [`mix_body`].
#[cfg(target_arch = "x86_64")]
pub(super) fn mix_four(pages: [&[u8]; 4]) -> [u32; 4] {
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature that the callee was compiled for has just been detected.
        return unsafe { mix_four_avx512(pages) };
    }
    let [one, two, three, four] = pages;
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature that the callee was compiled for has just been detected.
        let ([one, two], [three, four]) = unsafe { (mix_avx2([one, two]), mix_avx2([three, four])) };
        return [one, two, three, four];
    }
    pages.map(|page| mix_body([page])[0])
}

/// Mixes four pages of equal length; see [`mix_body`].
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn mix_four(pages: [&[u8]; 4]) -> [u32; 4] {
    let [one, two, three, four] = pages;
    let ([one, two], [three, four]) = (mix_body([one, two]), mix_body([three, four]));
    [one, two, three, four]
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn mix_avx2<const N: usize>(pages: [&[u8]; N]) -> [u32; N] {
    mix_body(pages)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn mix_four_avx512(pages: [&[u8]; 4]) -> [u32; 4] {
    mix_body(pages)
}

/// True when all these line pointers are sound; see [`all_inside_body`].
#[cfg(target_arch = "x86_64")]
pub(super) fn all_inside(pointers: &[[u8; 4]], bounds: &PointerBounds) -> bool {
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature that the callee was compiled for has just been detected.
        return unsafe { all_inside_avx512(pointers, bounds) };
    }
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature that the callee was compiled for has just been detected.
        return unsafe { all_inside_avx2(pointers, bounds) };
    }
    all_inside_body(pointers, bounds)
}

/// True when all these line pointers are sound; see [`all_inside_body`].
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn all_inside(pointers: &[[u8; 4]], bounds: &PointerBounds) -> bool {
    all_inside_body(pointers, bounds)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn all_inside_avx2(pointers: &[[u8; 4]], bounds: &PointerBounds) -> bool {
    all_inside_body(pointers, bounds)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn all_inside_avx512(pointers: &[[u8; 4]], bounds: &PointerBounds) -> bool {
    all_inside_body(pointers, bounds)
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

/// Continues a CRC-32C in the same way.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn short_crc32c_append(before: u32, bytes: &[u8]) -> Option<u32> {
    // SAFETY: the feature that the callee was compiled for has just been detected.
    std::arch::is_x86_feature_detected!("sse4.2").then(|| unsafe { !crc_steps_sse42(!before, bytes) })
}

/// `None`: there is no such kernel for this kind of CPU.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn short_crc32c_append(_before: u32, _bytes: &[u8]) -> Option<u32> {
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
