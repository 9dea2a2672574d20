//! Work on many threads whose results are taken up in order, so that no answer depends on the number of threads.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Results that may wait for those before them, per thread.
const AHEAD_PER_WORKER: usize = 3;

/// State shared by the threads.
struct QueueState<I, T> {
    items: I,
    next: usize,
    taken: usize,
    /// Results that wait for those before them.
    done: BTreeMap<usize, T>,
    is_empty: bool,
    /// No one needs more results, or a thread stopped.
    stop: bool,
}

struct Queue<I, T> {
    state: Mutex<QueueState<I, T>>,
    /// Notified when there is something to take up. Not of every result: waking a thread costs as much as reading some pages.
    results: Condvar,
    /// Notified when there is room for results.
    room: Condvar,
    ahead: usize,
}

/// Gives each of `items` to one of `workers`, each of which runs on a thread of its own, and shows the results to
/// `take_up` on the caller's thread, in the order of the items, until it stops. Threads are at most a few items ahead
/// of it, and items are made as they are needed: memory does not grow with their number.
///
/// # Panics
/// When a worker panics.
pub fn in_order<I, T, W>(
    items: impl Iterator<Item = I> + Send,
    workers: Vec<W>,
    mut take_up: impl FnMut(T) -> ControlFlow<()>,
) where
    T: Send,
    W: FnMut(I) -> T + Send,
{
    let state = QueueState { items, next: 0, taken: 0, done: BTreeMap::new(), is_empty: false, stop: false };
    let ahead = workers.len().max(1).saturating_mul(AHEAD_PER_WORKER);
    let queue = Queue { state: Mutex::new(state), results: Condvar::new(), room: Condvar::new(), ahead };
    std::thread::scope(|scope| {
        // However this block is left, the threads end.
        let _end = StopAtEnd { queue: &queue, always: true };
        for mut worker in workers {
            let queue = &queue;
            scope.spawn(move || {
                let _end = StopAtEnd { queue, always: false };
                while let Some((number, item)) = queue.begin() {
                    let result = worker(item);
                    queue.put(number, result);
                }
            });
        }
        while let Some(result) = queue.take() {
            if take_up(result).is_break() {
                break;
            }
        }
    });
}

impl<I: Iterator, T> Queue<I, T> {
    /// The next item and its number; waits while too many results have not been taken up.
    fn begin(&self) -> Option<(usize, I::Item)> {
        let mut state = self.lock();
        while !state.stop && state.next >= state.taken.saturating_add(self.ahead) {
            self.results.notify_one();
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stop || state.is_empty {
            return None;
        }
        let item = state.items.next();
        if item.is_none() {
            state.is_empty = true;
            self.results.notify_one();
        }
        let number = state.next;
        state.next = state.next.saturating_add(usize::from(item.is_some()));
        item.map(|item| (number, item))
    }

    /// Keeps a result until it is taken up.
    fn put(&self, number: usize, result: T) {
        let mut state = self.lock();
        state.done.insert(number, result);
        if state.is_empty || state.done.len().saturating_mul(2) >= self.ahead {
            self.results.notify_one();
        }
    }

    /// Waits for the next result; `None` after the last one, and when a thread stopped.
    fn take(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            let number = state.taken;
            if let Some(result) = state.done.remove(&number) {
                state.taken = state.taken.saturating_add(1);
                self.room.notify_all();
                return Some(result);
            }
            if state.stop || (state.is_empty && number == state.next) {
                return None;
            }
            state = self.results.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<I, T> Queue<I, T> {
    fn lock(&self) -> MutexGuard<'_, QueueState<I, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops everybody when it is dropped, so that nobody waits for a thread that is gone.
struct StopAtEnd<'a, I, T> {
    queue: &'a Queue<I, T>,
    always: bool,
}

impl<I, T> Drop for StopAtEnd<'_, I, T> {
    fn drop(&mut self) {
        if self.always || std::thread::panicking() {
            self.queue.lock().stop = true;
            self.queue.room.notify_all();
            self.queue.results.notify_one();
        }
    }
}

/// One thread per core, for work that has no option.
pub fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Numbers below `count` by `jobs` threads, the even ones late, until `last` was seen.
    fn numbers(count: usize, jobs: usize, last: usize) -> Vec<usize> {
        let worker = |number: usize| {
            if number.is_multiple_of(2) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            number
        };
        let mut seen = Vec::new();
        in_order(0..count, vec![worker; jobs], |number| {
            seen.push(number);
            if number == last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        seen
    }

    #[test]
    fn results_come_in_order_whatever_the_number_of_threads() {
        for jobs in [1, 2, 3, 8] {
            assert_eq!(numbers(100, jobs, 100), (0..100).collect::<Vec<_>>());
            assert_eq!(numbers(100, jobs, 40), (0..41).collect::<Vec<_>>());
            assert!(numbers(0, jobs, 0).is_empty());
        }
    }

    #[test]
    fn nobody_runs_far_ahead() {
        let (begun, mut taken, mut most) = (AtomicUsize::new(0), 0, 0);
        let worker = |_: usize| begun.fetch_add(1, Ordering::Relaxed);
        in_order(0..500, vec![worker; 2], |_| {
            taken += 1;
            most = most.max(begun.load(Ordering::Relaxed).saturating_sub(taken));
            ControlFlow::Continue(())
        });
        assert_eq!(taken, 500);
        assert!(most <= 2 * AHEAD_PER_WORKER + 2, "{most}");
    }

    #[test]
    fn thread_that_panics_leaves_nobody_waiting() {
        let worker = |number: usize| assert_ne!(number, 30);
        let ran = std::panic::catch_unwind(|| in_order(0..1000, vec![worker; 3], |()| ControlFlow::Continue(())));
        assert!(ran.is_err());
        let taker = std::panic::catch_unwind(|| {
            in_order(0..1000, vec![|number: usize| number; 3], |number| {
                assert_ne!(number, 30);
                ControlFlow::Continue(())
            });
        });
        assert!(taker.is_err());
    }
}
