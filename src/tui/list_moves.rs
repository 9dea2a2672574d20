//! From line to line of a list.

/// A line further by so many, and none past the last one.
pub(super) fn moved(at: usize, by: isize, count: usize) -> usize {
    at.saturating_add_signed(by).min(count.saturating_sub(1))
}

/// The next index of `count` that fits, from `at` on and past the end from the start. `here`: `at` itself may be it.
pub(super) fn next_index(
    at: usize,
    count: usize,
    forward: bool,
    here: bool,
    fits: &dyn Fn(usize) -> bool,
) -> Option<usize> {
    let mut steps = if here { 0..count } else { 1..count + 1 };
    let index = |step: usize| if forward { (at + step) % count } else { (at + count - step % count) % count };
    steps.find_map(|step| Some(index(step)).filter(|at| fits(*at)))
}

/// The value so many places further among all, past the last one from the first.
pub(super) fn stepped<T: Copy + PartialEq>(all: &[T], one: T, step: isize) -> T {
    let at = all.iter().position(|other| *other == one).unwrap_or(0).cast_signed();
    let next = (at + step).rem_euclid(all.len().max(1).cast_signed());
    all.get(next.cast_unsigned()).copied().unwrap_or(one)
}
